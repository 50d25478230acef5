/** Lets `count` calls run at once; others wait in their order. */
export function turnstile(count: number) {
  const waiting: (() => void)[] = []
  return async <T>(run: () => Promise<T>): Promise<T> => {
    if (count > 0) count--
    else await new Promise<void>(resolve => waiting.push(resolve))
    try {
      return await run()
    } finally {
      const next = waiting.shift()
      if (next === undefined) count++
      else next()
    }
  }
}
