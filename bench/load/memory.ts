import { gateway, generous } from './contenders.ts'
import { generate } from './generator.ts'
import { cpuTime, memory as memoryOf } from './processes.ts'
import { progress, type Scenario, target } from './scenario.ts'
import { figure, median } from './table.ts'
import { startUpstream } from './upstream.ts'

const samples = 10

export const memory: Scenario = {
  name: 'memory',
  summary: 'resident memory over 2,000,000 limited requests',
  async run({ env, quick }) {
    const upstream = await startUpstream()
    const started = await gateway({ name: 'limited', env, key: generous, accessLog: 'file' }).start(upstream)
    const { pid } = started.running
    const amount = quick ? 5_000 : 200_000
    const rows: string[][] = []
    const resident: number[] = []
    let failed = 0
    for (let sample = 1; sample <= samples; sample++) {
      const before = cpuTime(pid)
      const measured = await generate({ ...started.load, connections: 64, amount })
      started.running.mustRun()
      const { rss, peak } = memoryOf(pid)
      resident.push(rss)
      failed += amount - measured.requests + measured.refused
      const cpu = (cpuTime(pid) - before) / measured.requests
      rows.push([
        figure(sample * amount),
        figure(rss),
        figure(peak),
        figure(measured.requests / measured.seconds),
        figure(cpu, 1)
      ])
      progress(`after ${figure(sample * amount)} requests: ${figure(rss)} MiB`)
    }
    await started.stop()
    await upstream.stop()
    const growth = median(resident.slice(-3)) - median(resident.slice(1, 4))
    return {
      tables: [
        {
          caption: 'Limited requests in one process, 64 connections',
          head: ['requests', 'RSS MiB', 'peak MiB', 'requests/s', 'CPU µs/request'],
          rows
        }
      ],
      details: [],
      targets: [
        target('RSS at the end', resident.at(-1)!, '<=', 200, ' MiB'),
        // A heap moves by some MiB from one collection to the next.
        target('growth: median of the last three samples above that of the second to fourth', growth, '<=', 10, ' MiB')
      ],
      failures: failed > 0 ? [`${figure(failed)} requests were not answered as expected`] : []
    }
  }
}
