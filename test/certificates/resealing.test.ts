import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import t from 'tap'
import { newUser, userWrites } from '../../control/users.ts'
import { resealing } from '../../gateway/certificates/resealing.ts'
import { Conflict, type Store, Unavailable } from '../../gateway/store/store.ts'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { storeSqlite } from '../../gateway/store/storeSqlite.ts'
import { type Vault, vault } from '../../gateway/vault.ts'
import { certificate, hashOf } from '../helpers/certificates.ts'
import { handClock } from '../helpers/clock.ts'
import { api, collectedLog, gateway } from '../helpers/gateway.ts'
import { postgres } from '../helpers/postgres.ts'
import { call, folder, type Launched, launch, settings } from '../helpers/process.ts'
import { fragile, keep, settled } from './watching.ts'

t.setTimeout(120_000)

const random = { bytes: randomBytes }
const earlier = vault('earlier secret', random)
const present = vault('present secret', random, ['earlier secret'])

/** A certificate and a user, whose secrets lie sealed by a vault. */
async function filled(store: Store, by: Vault, name: string): Promise<void> {
  const sealedKey = by.seal(`key of ${name}`, `certificate/${name}`)
  const user = newUser({ email_address: `${name}@example.com`, org_id: 'default' }, name, new Date(0).toISOString())
  await store.commit([
    { kind: 'certificate', id: name, org: 'default', body: { details: { name }, pem: 'pem', sealedKey } },
    ...userWrites(user, `access key of ${name}`, 'hash', by)
  ])
}

const sealedKeyOf = async (store: Store, kind: 'certificate' | 'user', id: string) =>
  (await store.get<{ sealedKey: string }>(kind, id))!.body.sealedKey

function process(store: Store, of = present) {
  const log = collectedLog()
  const clock = handClock()
  const stop = resealing({ store, vault: of, clock, log })
  return { log, clock, stop }
}

t.test('what lies sealed under an earlier secret is sealed under the present one', async t => {
  const store = storeMemory()
  for (const name of ['a', 'b']) await filled(store, earlier, name)
  await filled(store, present, 'c')
  const keyless = {
    kind: 'certificate',
    id: 'd',
    org: 'default',
    body: { details: {}, pem: 'pem', sealedKey: '' }
  } as const
  await store.commit([keyless])
  const { log, stop } = process(store)
  await settled()
  for (const name of ['a', 'b', 'c'])
    for (const [kind, text] of [
      ['certificate', `key of ${name}`],
      ['user', `access key of ${name}`]
    ] as const) {
      const sealed = await sealedKeyOf(store, kind, name)
      t.ok(present.isOwn(sealed))
      t.equal(present.open(sealed, `${kind}/${name}`), text)
    }
  t.match((await store.get('certificate', 'a'))?.body, { details: { name: 'a' }, pem: 'pem' }, 'the rest stays')
  t.match((await store.get('user', 'a'))?.body, { user: { email_address: 'a@example.com' }, passwordHash: 'hash' })
  t.equal((await store.get('user', 'c'))?.rev, 1, 'what is sealed under it is not written')
  t.equal((await store.get('certificate', 'd'))?.rev, 1)
  t.match(log.lines, [{ level: 'info', msg: 'secrets in the store were sealed anew', done: 4 }])
  await stop()
  const again = process(store)
  await settled()
  t.same(again.log.lines, [], 'where there is nothing to do, nothing is said')
  await again.stop()
})

t.test('what cannot be opened is counted and named, and everything else goes on', async t => {
  const store = storeMemory()
  const foreign = vault('a secret that nobody knows', random)
  for (let i = 0; i < 4; i++) await filled(store, foreign, `lost${i}`)
  await filled(store, earlier, 'a')
  const { log, stop } = process(store)
  await settled()
  t.ok(present.isOwn(await sealedKeyOf(store, 'user', 'a')))
  t.match(log.lines, [
    { level: 'info', done: 2 },
    {
      level: 'error',
      msg: /cannot be opened/,
      count: 8,
      first: ['certificate/lost0', 'certificate/lost1', 'certificate/lost2', 'certificate/lost3', 'user/lost0']
    }
  ])
  t.notMatch(JSON.stringify(log.lines), 'key of')
  await stop()
})

t.test('progress is told, and two processes at once do each document once', async t => {
  const store = storeMemory()
  for (let i = 0; i < 600; i++) await filled(store, earlier, `n${i}`)
  const [one, two] = [process(store), process(store)]
  for (let i = 0; i < 20; i++) await settled()
  await Promise.all([one.stop(), two.stop()])
  const done = (log: typeof one.log) => Number(log.lines.findLast(({ done }) => done !== undefined)?.done ?? 0)
  t.equal(done(one.log) + done(two.log), 1_200)
  const { documents } = await store.list('user', { page: -1, size: 1 })
  t.ok(documents.every(({ rev, body }) => rev === 2 && present.isOwn((body as { sealedKey: string }).sealedKey)))
  const alone = storeMemory()
  for (let i = 0; i < 600; i++) await filled(alone, earlier, `n${i}`)
  const three = process(alone)
  for (let i = 0; i < 20; i++) await settled()
  await three.stop()
  t.match(three.log.lines, [
    { msg: 'secrets in the store are being sealed anew' },
    { msg: 'secrets in the store were sealed anew', done: 1_200 }
  ])
})

t.test('a process that dies in the middle leaves the rest to the next', async t => {
  const store = storeMemory()
  for (let i = 0; i < 20; i++) await filled(store, earlier, `n${i}`)
  let left = 7
  const dying: Store = { ...store, commit: writes => (left-- > 0 ? store.commit(writes) : new Promise(() => {})) }
  process(dying)
  await settled()
  const { log, stop } = process(store)
  await settled()
  t.match(log.lines, [{ done: 33 }])
  await stop()
})

t.test('whoever writes at the same time wins', async t => {
  const store = storeMemory()
  await filled(store, earlier, 'a')
  let isFirst = true
  const raced: Store = {
    ...store,
    async commit(writes) {
      if (isFirst && writes[0]!.kind === 'certificate') {
        isFirst = false
        const { body } = (await store.get<object>('certificate', 'a'))!
        await store.commit([{ kind: 'certificate', id: 'a', org: 'default', body: { ...body, pem: 'newer' } }])
      }
      if (writes[0]!.kind === 'user') {
        await store.commit([{ kind: 'user', id: 'a', body: null }])
        throw new Conflict('user', 'a')
      }
      return store.commit(writes)
    }
  }
  const { log, stop } = process(raced)
  await settled()
  await stop()
  t.match((await store.get('certificate', 'a'))?.body, { pem: 'newer' })
  t.ok(present.isOwn(await sealedKeyOf(store, 'certificate', 'a')))
  t.equal(await store.get('user', 'a'), null, 'what was deleted stays deleted')
  t.match(log.lines, [{ done: 1 }])
})

t.test('it goes on once the store is back, and ends when it is told to', async t => {
  const memory = storeMemory()
  await filled(memory, earlier, 'a')
  let isAway = true
  const store = fragile(memory, what => (isAway && what === 'commit' ? new Unavailable('away') : null))
  const { log, clock, stop } = process(store)
  await settled()
  t.same(log.lines, [])
  isAway = false
  await clock.move(10_000)
  await settled()
  t.match(log.lines, [{ done: 2 }])
  await stop()
  await filled(memory, earlier, 'b')
  isAway = true
  const other = process(store)
  await settled()
  await other.stop()
  isAway = false
  await other.clock.move(60_000)
  await settled()
  t.notOk(present.isOwn(await sealedKeyOf(memory, 'user', 'b')))
})

/** A process with data of its own and these secrets for what is sealed. */
function started(
  t: Parameters<typeof launch>[0],
  cwd: string,
  security: { private_certificate_encoding_secret?: string; previous_private_certificate_encoding_secrets?: string[] },
  secret = FIRST
): Launched {
  const storage = { documents: { type: 'sqlite', path: join(cwd, 'svc.db') } }
  return launch(t, { cwd, settings: settings({ secret, security }, { storage }) })
}

async function ended(process: Launched, signal: NodeJS.Signals): Promise<void> {
  process.child.kill(signal)
  await process.ended
}

const anew = ({ msg }: { msg: string }) => msg === 'secrets in the store were sealed anew'
const closed = ({ msg }: { msg: string }) => /cannot be opened/.test(msg)

const FIRST = 'the secret of the first day'
const SECOND = 'second secret, long enough'
const THIRD = 'third secret, long enough'
const USERS = 2_500

t.test('secrets of a gateway are changed twice, with a kill in the middle, and nothing is lost', async t => {
  const cwd = folder(t)
  const path = join(cwd, 'svc.db')
  const opened = async <T>(use: (store: Store) => Promise<T>): Promise<T> => {
    const store = await storeSqlite({ path, log: collectedLog() })
    try {
      return await use(store)
    } finally {
      await store.close()
    }
  }
  const first = vault(FIRST, random)
  const made = certificate()
  const certificateId = `default${hashOf(made)}`
  await opened(async store => {
    await keep(store, made, 'default', first.seal(made.keyPem, `certificate/${certificateId}`))
    for (let i = 0; i < USERS; i += 100)
      await store.commit(
        Array.from({ length: 100 }, (_, n) => {
          const id = `u${i + n}`
          const given = { email_address: `${id}@example.com`, org_id: 'default', active: true }
          return userWrites(newUser(given, id, new Date(0).toISOString()), `access key of ${id}`, '', first)
        }).flat()
      )
  })
  const sealed = (by: Vault) =>
    opened(async store => {
      let count = 0
      for (const kind of ['user', 'certificate'] as const)
        for await (const documents of store.each<{ sealedKey: string }>(kind, {}))
          for (const { id, body } of documents) {
            const text = kind === 'user' ? `access key of ${id}` : made.keyPem
            if (by.isOwn(body.sealedKey) && by.open(body.sealedKey, `${kind}/${id}`) === text) count++
          }
      return count
    })

  // `gateway.secret` counts as an earlier one.
  const second = { private_certificate_encoding_secret: SECOND }
  const killed = started(t, cwd, second)
  await killed.line(({ msg }) => msg === 'secrets in the store are being sealed anew')
  await ended(killed, 'SIGKILL')
  const done = await sealed(vault(SECOND, random))
  t.ok(done >= 1_000 && done < USERS, `killed after ${done}`)
  t.equal(done + (await sealed(first)), USERS + 1, 'each opens under one of the two')

  const whole = started(t, cwd, second)
  t.equal((await whole.line(anew)).done, USERS + 1 - done)
  await ended(whole, 'SIGTERM')
  t.notOk(whole.lines().some(closed))
  t.equal(await sealed(vault(SECOND, random)), USERS + 1)

  // Another one, and another secret of the gateway too: both earlier ones are named.
  const third = {
    private_certificate_encoding_secret: THIRD,
    previous_private_certificate_encoding_secrets: [SECOND, FIRST]
  }
  const last = started(t, cwd, third, 'the secret of the last day')
  t.equal((await last.line(anew)).done, USERS + 1)
  const told = await call(last, '/admin/users?p=1', { 'Admin-Auth': 'the secret of the last day' })
  t.equal(told.body.users[0].access_key, 'access key of u0')
  await ended(last, 'SIGTERM')
  t.notOk(last.lines().some(closed))
  t.equal(await sealed(vault(THIRD, random)), USERS + 1)

  // With a wrong one the process runs and says what it cannot read.
  const wrong = started(t, cwd, { private_certificate_encoding_secret: 'wrong secret, long enough' })
  t.match(await wrong.line(closed), { level: 'error', count: USERS + 1, first: [`certificate/${certificateId}`] })
  await wrong.ready
  await ended(wrong, 'SIGTERM')
  t.equal(await sealed(vault(THIRD, random)), USERS + 1)
})

t.test('two processes of one database, the first step of a change without pause: both open everything', async t => {
  const database = await postgres(t, { version: 17 })
  const storage = { documents: { type: 'postgres', url: await database.database(), pool_size: 4 } }
  const process = (own: string, previous: string) =>
    gateway(t, {
      settings: {
        storage,
        gateway: {
          security: {
            private_certificate_encoding_secret: own,
            previous_private_certificate_encoding_secrets: [previous]
          }
        }
      }
    })
  const old = await process(SECOND, THIRD)
  const made = certificate()
  const { status, body } = await old.api('POST', '/api/certs', made.pem + made.keyPem)
  t.equal(status, 200)
  const next = await process(THIRD, SECOND)
  const sealedBy = async (secret: string) =>
    vault(secret, random).isOwn(
      (await next.store.get<{ sealedKey: string }>('certificate', body.id))?.body.sealedKey ?? ''
    )
  for (let i = 0; i < 200 && !(await sealedBy(THIRD)); i++) await new Promise(resolve => setTimeout(resolve, 10))
  t.ok(await sealedBy(THIRD))
  const server = { clientCertificates: { enabled: true, allowlist: [body.id] } }
  t.equal((await old.svc('POST', '/svc/apis/oas', api('a', 'svc://echo', { server: server }))).status, 200)
  t.notOk([...old.log.lines, ...next.log.lines].some(({ level }) => level === 'error'))
})
