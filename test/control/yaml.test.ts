import t from 'tap'
import { tooLarge } from '../../config/exactJson.ts'
import { Invalid } from '../../config/validate.ts'
import { parseYaml, toYaml } from '../../config/yaml.ts'
import { readPlacedYaml, readYaml, writeYaml, yamlThread } from '../../control/yaml.ts'
import { api, gateway } from '../helpers/gateway.ts'

const LARGE = '12345678901234567890'

/** Some 80 characters a path. */
function paths(count: number): Record<string, unknown> {
  const operation = (i: number) => ({ get: { operationId: `op${i}`, responses: { 200: { description: 'ok' } } } })
  return Object.fromEntries(Array.from({ length: count }, (_, i) => [`/p${i}`, operation(i)]))
}

t.test('a document far beyond what is read at once comes as YAML, goes as YAML and can be put back', async t => {
  const gw = await gateway(t)
  const document: any = api('big', 'svc://echo', {}, paths(6_000))
  document['x-large'] = 'large'
  const text = toYaml(document).replace('x-large: large', `x-large: ${LARGE}`)
  t.ok(text.length > 524_288)
  const headers = { 'Content-Type': 'application/yaml', Accept: 'application/yaml' }
  t.match(await gw.api('POST', '/api/apis/oas', text, { headers }), { status: 200, body: { ID: 'big' } })
  const read = await gw.api('GET', '/api/apis/oas/big', undefined, { headers })
  t.equal(read.headers.get('content-type'), 'application/yaml')
  t.match(read.body, `x-large: ${LARGE}\n`)
  t.equal((await gw.api('PUT', '/api/apis/oas/big', read.body, { headers })).status, 200)
  t.same((await gw.api('GET', '/api/apis/oas/big')).body.paths, document.paths)
  t.match(await gw.api('PUT', '/api/apis/oas/big', `${text}\na: 1\na: 2\n`, { headers }), {
    status: 400,
    body: { faults: [{ pointer: '/a', message: 'stands there twice' }] }
  })
})

t.test('a long description is imported, and what is told of it names its line', async t => {
  const gw = await gateway(t)
  const text = `openapi: 3.0.3\ninfo: {title: big, version: "1"}\nservers: [{url: "https://upstream.example"}]\n${toYaml({ paths: paths(3_000) })}`
  const unnamed = text.replace('      operationId: op2999\n', '')
  const { status, body } = await gw.api('POST', '/api/apis/oas/import', unnamed, {
    headers: { 'Content-Type': 'application/yaml' }
  })
  t.equal(status, 200)
  const { line } = body.report.find(({ keyword }: any) => keyword === 'operationId')
  t.equal(unnamed.split('\n')[line - 1]?.trim(), 'get:')
})

t.test('what is beyond the longest body is 413 as YAML too', async t => {
  const gw = await gateway(t, { settings: { management: { max_body_size: 100_000 } } })
  const headers = { 'Content-Type': 'application/yaml' }
  t.equal((await gw.api('POST', '/api/apis/oas', `a: ${'x'.repeat(100_000)}`, { headers })).status, 413)
})

t.test('in the thread as here', async t => {
  const value = { list: Array.from({ length: 8_000 }, (_, i) => ({ i })), name: 'x' }
  const text = await writeYaml(value)
  t.equal(text, toYaml(value))
  t.same(await readYaml(text, 'doubles'), parseYaml(text))
  const placed = await readPlacedYaml(text)
  t.same(placed.value, value)
  t.equal(placed.lineOf('/name'), 8_002)
  await t.rejects(readYaml(`${text}large: ${LARGE}\n`, 'doubles'), new Invalid([{ path: '/large', message: tooLarge }]))
})

t.test('what takes too long or too much memory is refused, and the next is read', async t => {
  const long = { task: 'read', text: '- a\n'.repeat(1_000_000), integers: 'exact' } as const
  for (const bounds of [
    { ms: 300, memoryMb: 1024, most: 8 },
    { ms: 60_000, memoryMb: 20, most: 8 }
  ]) {
    const thread = yamlThread(bounds)
    await t.rejects(thread.do(long), { status: 413, message: /send it as JSON/ })
    const write = { task: 'write', text: JSON.stringify({ list: Array(300_000).fill(1) }) } as const
    await t.rejects(thread.do(write), { status: 413, message: /ask for JSON/ })
  }
  t.equal(await yamlThread({ ms: 60_000, memoryMb: 100, most: 8 }).do({ ...long, text: 'a: 1' }), '{"a":1}')
})

t.test('when many wait, the next is told to come again', async t => {
  const thread = yamlThread({ ms: 60_000, memoryMb: 100, most: 8 })
  const told = await Promise.allSettled(
    Array.from({ length: 10 }, () => thread.do({ task: 'read', text: 'a: 1', integers: 'exact' }))
  )
  const refused = told.flatMap(each => (each.status === 'rejected' ? [each.reason] : []))
  t.match(refused, [
    { status: 503, headers: { 'Retry-After': '1' } },
    { status: 503, headers: { 'Retry-After': '1' } }
  ])
})
