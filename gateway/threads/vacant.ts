import { createServer } from 'node:net'

/**
 * Resolves when nobody listens there; port 0: at once. Threads share their port, and another gateway of the same user would share it
 * unnoticed: so it is bound for a moment in the way that tolerates nobody else.
 * @throws Error EADDRINUSE, EACCES, …, as `listen`
 */
export function vacant(port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    if (port === 0) return resolve()
    const server = createServer()
    server.once('error', reject)
    server.listen({ port, host: address === '' ? undefined : address, exclusive: true }, () =>
      server.close(() => resolve())
    )
  })
}
