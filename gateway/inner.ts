/** Whether `/svc` begins the path (in normal form): what the gateway's own management answers. */
export function isControl(path: string): boolean {
  return path === '/svc' || path.startsWith('/svc/')
}

/** Whether the path (in normal form) is a probe's. */
export function isProbe(path: string): boolean {
  return path === '/hello' || path === '/ready'
}
