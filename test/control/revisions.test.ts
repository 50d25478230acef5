import t from 'tap'
import { gateway, rights, type TestGateway } from '../helpers/gateway.ts'

const PATH = '/api/portal/policies'

async function written(gw: TestGateway, ...bodies: object[]): Promise<string> {
  const id = (await gw.api('POST', PATH, bodies[0])).body.Message
  for (const body of bodies.slice(1)) {
    const { status } = await gw.api('PUT', `${PATH}/${id}`, body)
    if (status !== 200) throw new Error(`status ${status}`)
  }
  return id
}

t.test('every write of a policy is a revision, newest first, whoever writes', async t => {
  const gw = await gateway(t)
  const id = await written(gw, { name: 'one' }, { name: 'two' })
  await gw.svc('PUT', `/svc/policies/${id}`, { name: 'three' })
  const { status, body } = await gw.api('GET', `${PATH}/${id}/revisions`)
  t.equal(status, 200)
  t.same(
    body.revisions.map(({ revision, by, summary }: any) => [revision, by, summary]),
    [
      [3, 'gateway secret', 'updated'],
      [2, 'admin@example.com', 'updated'],
      [1, 'admin@example.com', 'created']
    ]
  )
  for (const { at } of body.revisions) t.match(at, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  for (const [n, name] of [
    [1, 'one'],
    [2, 'two'],
    [3, 'three']
  ])
    t.equal((await gw.api('GET', `${PATH}/${id}/revisions/${n}`)).body.name, name)
})

t.test('an earlier revision is restored as a new one, by the checks of an update', async t => {
  const gw = await gateway(t)
  const id = await written(gw, { name: 'one', rate: 5, per: 1, ...rights('a') }, { name: 'two' })
  const first = (await gw.api('GET', `${PATH}/${id}/revisions/1`)).body
  const restored = await gw.api('POST', `${PATH}/${id}/revisions/1/restore`)
  t.same(restored.body, { Message: 'Data updated', Meta: null, Status: 'OK' })
  t.equal(restored.headers.get('etag'), '"3"')
  const { last_updated, ...now } = (await gw.api('GET', `${PATH}/${id}`)).body
  t.same(now, Object.fromEntries(Object.entries(first).filter(([name]) => name !== 'last_updated')))
  const [{ revision, summary }] = (await gw.api('GET', `${PATH}/${id}/revisions`)).body.revisions
  t.same([revision, summary], [3, 'restored revision 1'])
  await gw.api('PUT', `${PATH}/${id}`, { name: 'three' })
  await gw.api('POST', PATH, { name: 'one' })
  const taken = await gw.api('POST', `${PATH}/${id}/revisions/1/restore`)
  t.same([taken.status, taken.body.Message.slice(0, 25)], [400, 'This policy name has alre'], 'its name has gone')
  const late = await gw.api('POST', `${PATH}/${id}/revisions/2/restore`, undefined, { headers: { 'If-Match': '"1"' } })
  t.equal(late.status, 412)
  const { body } = await gw.api('GET', '/api/audit-logs?p=-1&status=200&url=restore')
  t.ok(
    body.audit_logs[0].diff.some(({ op, path, value }: any) => `${op} ${path} ${value}` === 'replace /name one'),
    'the audit tells what it changed'
  )
})

t.test('a revision that is not kept is 404', async t => {
  const gw = await gateway(t)
  const id = await written(gw, { name: 'one' })
  for (const n of ['0', '2', '-1', '01', '1.0', 'x', '%00', '__proto__', '9'.repeat(400), 'a%2Fb']) {
    const read = await gw.api('GET', `${PATH}/${id}/revisions/${n}`)
    t.same([read.status, read.body.Status], [404, 'Error'], n)
    t.equal((await gw.api('POST', `${PATH}/${id}/revisions/${n}/restore`)).status, 404, n)
  }
  for (const path of ['nothing/revisions', 'nothing/revisions/1'])
    t.equal((await gw.api('GET', `${PATH}/${path}`)).status, 404)
})

t.test('the last 50 revisions are kept, and none of a policy that was deleted', async t => {
  const gw = await gateway(t)
  const id = await written(gw, ...Array.from({ length: 53 }, (_, i) => ({ id: 'p', name: `n${i + 1}` })))
  const numbers = (await gw.api('GET', `${PATH}/${id}/revisions`)).body.revisions.map(({ revision }: any) => revision)
  t.same([numbers.length, numbers[0], numbers.at(-1)], [50, 53, 4])
  t.equal((await gw.api('GET', `${PATH}/${id}/revisions/3`)).status, 404)
  t.equal((await gw.api('GET', `${PATH}/${id}/revisions/4`)).body.name, 'n4')
  await gw.api('DELETE', `${PATH}/${id}`)
  t.equal((await gw.store.list('revision', { page: 1, size: 10 })).total, 0)
  await written(gw, { id: 'p', name: 'anew' })
  t.equal((await gw.api('GET', `${PATH}/p/revisions`)).body.revisions.length, 1)
})
