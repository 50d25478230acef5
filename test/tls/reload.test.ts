import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { api } from '../helpers/gateway.ts'
import { files, issued, pemOf, secure, shownTo } from './secure.ts'

t.setTimeout(60_000)

for (const workers of [1, 2])
  t.test(`a file that cannot be read any more keeps its certificate, ${workers} thread(s)`, async t => {
    const paths = files(t, { a: pemOf(issued('before.example')), own: pemOf(issued('own.example')) })
    const folder = mkdtempSync(join(tmpdir(), 'svc-tls-apis-'))
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const customDomain = { enabled: true, name: 'own.example', certificates: [paths.own] }
    const document = join(folder, 'own.json')
    writeFileSync(document, JSON.stringify(api('own', 'svc://echo', { server: { customDomain } })))
    const gw = await secure(t, [paths.a!], { settings: { workers, app_path: folder } })
    const statuses = async () => (await gw.svc('GET', '/svc/reload')).status
    const shown = async () => [await shownTo(t, gw.port), await shownTo(t, gw.port, 'own.example')]
    t.same(await shown(), ['before.example', 'own.example'])

    writeFileSync(paths.a!, 'torn')
    const { status, body } = await gw.svc('GET', '/svc/reload')
    t.equal(status, 422)
    t.match(JSON.stringify(body), /a\.pem: holds no certificate/)
    t.same(await shown(), ['before.example', 'own.example'])
    rmSync(paths.a!)
    t.match(await gw.reload(), [/a\.pem: ENOENT/])
    writeFileSync(paths.a!, pemOf(issued('after.example')))
    t.equal(await statuses(), 200)
    t.same(await shown(), ['after.example', 'own.example'])

    rmSync(paths.own!)
    t.match(await gw.reload(), [/own\.pem: ENOENT/], 'one that a document names')
    t.same(await shown(), ['after.example', 'own.example'])
    rmSync(document)
    t.equal(await statuses(), 200, 'with its document the file may go')
    t.same(await shown(), ['after.example', 'after.example'])
  })
