import { Agent, request } from 'node:http'

/**
 * Sends GETs at an even pace until it is asked to end (a line on standard input), and prints what became of each as one
 * line of JSON: when it began (ms since the epoch), how long it took (ms), its status (0: no answer).
 * Arguments: address, requests a second, most connections, headers as JSON.
 */
const [address, rate, connections, headers] = process.argv.slice(2) as [string, string, string, string]
const agent = new Agent({ keepAlive: true, maxSockets: Number(connections), scheduling: 'fifo' })
const options = { agent, headers: JSON.parse(headers) as Record<string, string> }
const at: number[] = []
const ms: number[] = []
const status: number[] = []
let open = 0
let ending = false

const TICK_MS = 10
const from = performance.now()
let sent = 0
const timer = setInterval(() => {
  const due = Math.floor(((performance.now() - from) / 1000) * Number(rate))
  for (; sent < due; sent++) send()
}, TICK_MS)

function send(): void {
  const number = at.length
  const began = performance.now()
  at.push(Date.now())
  ms.push(-1)
  status.push(0)
  open++
  const end = (code: number) => {
    if (ms[number] !== -1) return
    ms[number] = performance.now() - began
    status[number] = code
    open--
    if (ending && open === 0) tell()
  }
  const going = request(address, options, answer => {
    answer.resume()
    answer.on('end', () => end(answer.complete ? answer.statusCode! : 0))
    answer.on('close', () => end(0))
  })
  going.on('error', () => end(0))
  going.end()
}

function tell(): void {
  process.stdout.write(`${JSON.stringify({ at, ms, status })}\n`, () => process.exit(0))
}

process.stdin.once('data', () => {
  clearInterval(timer)
  ending = true
  if (open === 0) tell()
})
process.stdout.write('{"msg":"ready","gateway":""}\n')
