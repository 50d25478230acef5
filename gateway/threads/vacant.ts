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

/**
 * Two gateways that start in one moment would both find their port vacant and share it: the first to come here has it, until
 * the answer is called. Linux alone has names for this that leave nothing behind when a process is killed; elsewhere the
 * moment stays.
 * @throws Error EADDRINUSE
 */
export function lockPort(port: number, address: string): Promise<() => void> {
  if (port === 0 || process.platform !== 'linux') return Promise.resolve(() => {})
  return new Promise((resolve, reject) => {
    const server = createServer(socket => socket.destroy())
    server.once('error', cause => {
      const { code } = cause as NodeJS.ErrnoException
      reject(Object.assign(new Error(`listen ${code}: address already in use ${address}:${port}`), { code }))
    })
    server.listen({ path: `\0svc-gateway ${address}:${port}` }, () => resolve(() => server.close()))
    server.unref()
  })
}
