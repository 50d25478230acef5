import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { installed, type Place } from './machine.ts'
import { folder, freePort, type Running, start } from './processes.ts'

export const nginx = installed('nginx')

/**
 * nginx as one process, without logs, its files in a folder of its own.
 * @param http what stands in the block `http`, before its server; @param location what stands in its one location
 */
export async function startNginx(name: string, place: Place, http: string, location: string): Promise<Running> {
  const temp = folder()
  const port = await freePort()
  const conf = join(temp.path, 'nginx.conf')
  const errors = join(temp.path, 'error.log')
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  writeFileSync(
    conf,
    `daemon off; master_process off; pid ${temp.path}/pid; error_log ${errors};
events { worker_connections 4096; }
http {
  access_log off; tcp_nodelay on; sendfile on;
  keepalive_timeout 75s; keepalive_requests 1000000000; client_max_body_size 0; client_body_buffer_size 64k;
  ${temporary.map(each => `${each}_temp_path ${temp.path}/${each};`).join(' ')}
  ${http}
  server { listen 127.0.0.1:${port}; location / { ${location} } }
}
`
  )
  const args = ['-p', temp.path, '-c', conf, '-e', errors]
  const running = await start({ name, place, program: nginx!, args, port })
  const stop = async () => {
    await running.stop()
    temp.remove()
  }
  return { ...running, stop }
}
