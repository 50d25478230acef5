import { createHash } from 'node:crypto'
import fc from 'fast-check'
import type { Test } from 'tap'
import { parseExact } from '../../config/exactJson.ts'
import {
  type Change,
  Conflict,
  type Count,
  type Document,
  deletionsKept,
  type Kind,
  type Store,
  Unavailable
} from '../../gateway/store/store.ts'

const everything = { page: -1, size: 10 } as const

/**
 * What every store keeps to. `make` gives an empty store; the contract closes it.
 * @param keysOf the store whose sequence tells of keys, where it is another
 */
export function storeContract(
  t: Test,
  make: (t: Test) => Promise<Store>,
  keysOf: (store: Store) => Store = store => store
): void {
  const withStore = (name: string, run: (t: Test, store: Store) => Promise<void>) =>
    t.test(name, async t => {
      const store = await make(t)
      try {
        await run(t, store)
      } finally {
        await store.close()
      }
    })
  const key = (id: string, body: unknown = { id }, org = 'o1') => ({ kind: 'key' as const, id, org, body })
  const gone = (id: string) => ({ kind: 'key' as const, id, body: null })
  const ids = async (store: Store, query: object) =>
    (await store.list('key', { ...everything, ...query })).documents.map(({ id }) => id)

  withStore('a document comes back as it was written, with revision and sequence', async (t, store) => {
    t.equal(await keysOf(store).sequence(), 0)
    t.equal(await store.get('key', 'a'), null)
    const body = { text: 'ü"\\\n\u2028😀', list: [1, 2.5, null, true], deep: { empty: {} } }
    t.equal(await store.commit([key('a', body)]), 1)
    t.strictSame(await store.get('key', 'a'), { kind: 'key', id: 'a', org: 'o1', rev: 1, sequence: 1, body })
    t.equal(await store.get('policy', 'a'), null, 'kinds are apart')
    t.equal(await store.commit([key('a', [])]), 2)
    t.match(await store.get('key', 'a'), { rev: 2, sequence: 2, body: [] })
    t.equal(await keysOf(store).sequence(), 2)
  })

  withStore('a body that changes after the commit does not change the document', async (t, store) => {
    const body = { n: 1 }
    await store.commit([key('a', body)])
    body.n = 2
    t.match(await store.get('key', 'a'), { body: { n: 1 } })
  })

  withStore('a body that is no JSON is refused and nothing is written', async (t, store) => {
    const circle: Record<string, unknown> = {}
    circle.circle = circle
    for (const body of [undefined, circle, 1n]) await t.rejects(store.commit([key('a'), { ...key('b'), body }]))
    t.equal(await store.get('key', 'a'), null)
  })

  withStore('ids are told apart to the byte', async (t, store) => {
    const odd = [
      '',
      ' ',
      'a',
      'A',
      'ä',
      'a\u0308',
      "'; --",
      '%',
      '_',
      '*',
      '\n',
      'nul\0',
      'nul\0l',
      'nul\x01\x02\x02l',
      '\x01',
      '\x02\x03',
      '__proto__',
      'x'.repeat(4096),
      'x'.repeat(4097),
      // What no database can squeeze into an index.
      Array.from({ length: 256 }, (_, i) => createHash('sha256').update(`${i}`).digest('base64')).join('')
    ]
    await store.commit(odd.map(id => key(id, { id }, id)))
    for (const id of odd) {
      t.match(await store.get('key', id), { id, org: id, body: { id } }, JSON.stringify(id))
      t.strictSame(await ids(store, { org: id }), [id])
    }
    t.strictSame(await ids(store, {}), odd)
  })

  withStore('large integers come back digit by digit', async (t, store) => {
    const text = '{"a":9223372036854775807,"b":[-9223372036854775808]}'
    await store.commit([key('a', parseExact(text))])
    t.equal(JSON.stringify((await store.get('key', 'a'))?.body), text)
    t.equal(JSON.stringify((await store.list('key', everything)).documents[0]?.body), text)
  })

  withStore('a deleted document is gone, deleting what is absent changes nothing', async (t, store) => {
    await store.commit([key('a')])
    t.equal(await store.commit([gone('b')]), 1)
    t.equal(await keysOf(store).commit([]), 1)
    t.equal(await store.commit([gone('a')]), 2)
    t.equal(await store.get('key', 'a'), null)
    t.strictSame(await store.list('key', everything), { documents: [], total: 0 })
    t.equal(await store.commit([key('a')]), 3)
    t.match(await store.get('key', 'a'), { rev: 1, sequence: 3 }, 'created again it begins anew')
  })

  withStore('an expected revision that is not there undoes the whole commit', async (t, store) => {
    await store.commit([key('a'), key('b')])
    await store.commit([key('b')])
    const conflicts = [
      [key('c'), { ...key('a', 'new'), expect: 2 }],
      [key('c'), { ...key('a', 'new'), expect: 0 }],
      [key('c'), { ...key('d', 'new'), expect: 1 }],
      [key('c'), { ...gone('b'), expect: 1 }],
      [gone('a'), { ...key('a', 'new'), expect: 1 }],
      [
        { ...key('c'), expect: 0 },
        { ...key('c'), expect: 0 }
      ]
    ]
    for (const writes of conflicts) {
      const error = await store.commit(writes).catch((error: unknown) => error)
      t.ok(error instanceof Conflict)
      t.match(error, { kind: 'key', id: writes[1]!.id })
    }
    t.equal(await store.get('key', 'c'), null)
    t.match(await store.get('key', 'a'), { rev: 1, body: { id: 'a' } })
    t.equal(await keysOf(store).sequence(), 2)
    t.strictSame(await ids(store, {}), ['a', 'b'])
    await store.commit([
      { ...key('a'), expect: 1 },
      { ...gone('b'), expect: 2 },
      { ...key('c'), expect: 0 },
      { ...gone('d'), expect: 0 }
    ])
    t.strictSame(await ids(store, {}), ['a', 'c'])
  })

  withStore('writes of one commit happen in their order', async (t, store) => {
    t.equal(await store.commit([key('a', 1), key('a', 2), gone('b'), key('b', 1), gone('b')]), 1)
    t.match(await store.get('key', 'a'), { rev: 2, sequence: 1, body: 2 })
    t.equal(await store.get('key', 'b'), null)
    t.equal((await store.list('key', everything)).total, 1)
  })

  withStore('commits at the same time get a sequence each, and a conflict harms only its own', async (t, store) => {
    const commits = Array.from({ length: 60 }, (_, i) =>
      store.commit(i % 3 === 2 ? [key(`${i}`), { ...key('shared'), expect: 77 }] : [key(`${i}`), key('shared')])
    )
    const results = await Promise.allSettled(commits)
    const sequences = results.flatMap(result => (result.status === 'fulfilled' ? [result.value] : []))
    t.equal(sequences.length, 40)
    t.strictSame(
      [...sequences].sort((a, b) => a - b),
      Array.from({ length: 40 }, (_, i) => i + 1)
    )
    for (let i = 0; i < 60; i++) t.equal((await store.get('key', `${i}`)) === null, i % 3 === 2)
    t.match(await store.get('key', 'shared'), { rev: 40, sequence: 40 })
    t.equal((await store.list('key', everything)).total, 41)
  })

  withStore('a count is only raised: by a later period, or more in the same one', async (t, store) => {
    const raise = (id: string, count: number, renews: number) =>
      ({ kind: 'ledger', id, org: '', body: { id, count, renews }, raise: true }) as const
    const kept = async (id: string) => (await store.get<Count>('ledger', id))?.body
    let sequence = 0
    const cases: [[number, number] | null, [number, number], boolean][] = [
      [null, [1, 1000], true],
      [[5, 1000], [6, 1000], true],
      [[5, 1000], [5, 1000], false],
      [[6, 1000], [5, 1000], false],
      [[6, 1000], [1, 1001], true],
      [[6, 1000], [9, 999], false],
      [[6, 1000], [1, 0], true],
      [[6, 0], [9, 1000], false],
      [[6, 0], [9, 0], true],
      [[6, 0], [6, 0], false],
      [[9, 1_800_000_000_000], [10, 1_800_000_000_000], true],
      [[10, 1_800_000_000_000], [9, 1_800_000_000_000], false]
    ]
    for (const [before, given, wins] of cases) {
      const name = JSON.stringify([before, given])
      if (before !== null) {
        const [count, renews] = before
        sequence = await store.commit([{ kind: 'ledger', id: name, org: '', body: { id: name, count, renews } }])
      }
      if (wins) sequence++
      t.equal(await store.commit([raise(name, ...given)]), sequence, name)
      const [count, renews] = wins ? given : before!
      t.strictSame(await kept(name), { id: name, count, renews }, name)
    }

    // In one commit they see each other, as with other writes and their expectations.
    const document = { kind: 'ledger', id: 'a', org: '' } as const
    await store.commit([
      raise('a', 5, 100),
      raise('a', 4, 100),
      { ...document, body: { id: 'a', count: 2, renews: 100 }, expect: 1 },
      raise('a', 3, 100),
      raise('a', 1, 99),
      { ...document, body: null, expect: 3 },
      raise('a', 1, 50)
    ])
    t.match(await store.get('ledger', 'a'), { rev: 1, body: { count: 1, renews: 50 } })
    // At the same time, in any order, from any number of writers.
    const counts = Array.from({ length: 50 }, (_, i) => ((i * 37) % 50) + 1)
    await Promise.all(counts.map(count => store.commit([raise('b', count, 100), key(`b ${count}`)])))
    t.match(await kept('b'), { count: 50 })
    t.equal((await store.list('ledger', everything)).total, 14)
    t.equal(await store.commit([raise('b', 7, 100), key('with it')]), (await store.get('key', 'with it'))?.sequence)
  })

  withStore('exactly one of many that expect the same revision succeeds', async (t, store) => {
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, i) => store.commit([{ ...key('a', i), expect: 0 }]))
    )
    t.equal(results.filter(({ status }) => status === 'fulfilled').length, 1)
    t.match(await store.get('key', 'a'), { rev: 1 })
  })

  withStore(
    'lists go by creation, updates keep their place, a document created again is the newest',
    async (t, store) => {
      await store.commit(['a', 'b', 'c', 'd', 'e'].map(id => key(id)))
      await store.commit([key('b', 'new'), gone('c')])
      await store.commit([key('c')])
      t.strictSame(await ids(store, {}), ['a', 'b', 'd', 'e', 'c'])
      t.strictSame(await ids(store, { newestFirst: true }), ['c', 'e', 'd', 'b', 'a'])
      t.strictSame(await ids(store, { page: 1, size: 2 }), ['a', 'b'])
      t.strictSame(await ids(store, { page: 0, size: 2 }), ['a', 'b'])
      t.strictSame(await ids(store, { page: 3, size: 2 }), ['c'])
      t.strictSame(await ids(store, { page: 3, size: 2, newestFirst: true }), ['a'])
      t.strictSame(await store.list('key', { page: 4, size: 2 }), { documents: [], total: 5 })
      t.strictSame(await store.list('policy', { page: 1, size: 2 }), { documents: [], total: 0 })
      const { documents } = await store.list('key', { page: 1, size: 1 })
      t.strictSame(documents[0], await store.get('key', 'a'))
    }
  )

  withStore('a list of an organisation has only its documents, also after they moved', async (t, store) => {
    await store.commit([key('a', 1, 'o1'), key('b', 1, 'o2'), key('c', 1, ''), key('d', 1, 'o1'), key('e', 1, '*')])
    t.strictSame(await ids(store, { org: 'o1' }), ['a', 'd'])
    t.strictSame(await ids(store, { org: '' }), ['c'])
    t.strictSame(await ids(store, { org: '*' }), ['e'])
    t.strictSame(await ids(store, { org: 'o3' }), [])
    await store.commit([key('a', 2, 'o2'), key('d', 2, 'o3')])
    t.strictSame(await ids(store, { org: 'o1' }), [])
    t.strictSame(await ids(store, { org: 'o2' }), ['a', 'b'], 'by creation')
    t.equal((await store.list('key', { page: 1, size: 1, org: 'o2' })).total, 2)
    t.strictSame(await ids(store, {}), ['a', 'b', 'c', 'd', 'e'])
  })

  withStore('a search finds a part of the id, literally and by case', async (t, store) => {
    await store.commit(['xaby', 'ab', 'AB', 'a%b', 'a_b', 'b', 'zab'].map((id, i) => key(id, {}, `o${i % 2}`)))
    t.strictSame(await ids(store, { contains: 'ab' }), ['xaby', 'ab', 'zab'])
    t.strictSame(await ids(store, { contains: 'ab', newestFirst: true, page: 1, size: 2 }), ['zab', 'ab'])
    t.strictSame(await ids(store, { contains: '%' }), ['a%b'])
    t.strictSame(await ids(store, { contains: '_' }), ['a_b'])
    t.strictSame(await ids(store, { contains: 'ab', org: 'o0' }), ['xaby', 'zab'])
    t.match(await store.list('key', { contains: 'ab', page: 2, size: 2 }), { total: 3, documents: [{ id: 'zab' }] })
    t.equal((await store.list('key', { contains: '', page: 1, size: 2 })).total, 7)
    t.strictSame(await store.list('key', { contains: 'q', page: 1, size: 2 }), { documents: [], total: 0 })
    t.match(await store.list('key', { contains: 'a', page: 9, size: 2 }), { total: 5, documents: [] })
    await store.commit(['n\0n', 'n\x01n', '\x02'].map(id => key(id)))
    for (const [contains, found] of [
      ['\0', ['n\0n']],
      ['n\0', ['n\0n']],
      ['\x01', ['n\x01n']],
      ['\x02', ['\x02']],
      ['\0\0', []]
    ] as const)
      t.strictSame(await ids(store, { contains }), found, JSON.stringify(contains))
  })

  withStore('a page of any length and place is cut as a short one', async (t, store) => {
    const all = Array.from({ length: 700 }, (_, i) => `${i}`)
    await store.commit(all.map(id => key(id)))
    for (const newestFirst of [false, true]) {
      for (const contains of ['', '1']) {
        const found = all.filter(id => id.includes(contains))
        if (newestFirst) found.reverse()
        for (const [page, size] of [
          [1, 650],
          [2, 101],
          [2, 650],
          [3, 650],
          [2, 0]
        ] as const) {
          const answer = await store.list('key', { page, size, newestFirst, contains })
          t.strictSame(
            answer.documents.map(({ id }) => id),
            found.slice((page - 1) * size, page * size)
          )
          t.equal(answer.total, found.length)
        }
      }
    }
  })

  withStore('a list of ids leaves bodies out', async (t, store) => {
    await store.commit([key('a')])
    const { documents } = await store.list('key', { ...everything, idsOnly: true })
    t.strictSame(documents, [{ kind: 'key', id: 'a', org: 'o1', rev: 1, sequence: 1, body: null }])
  })

  withStore('a long list is of one moment, and bodies of a megabyte pass', async (t, store) => {
    await store.commit(Array.from({ length: 9_000 }, (_, i) => key(`${i}`, 'x'.repeat(400))))
    await store.commit([{ kind: 'api', id: 'big', org: '', body: 'é'.repeat(1 << 20) }])
    const listing = store.list('key', everything)
    const others = await Promise.all([
      store.list('key', { ...everything, newestFirst: true }),
      store.commit([gone('8999'), key('new')])
    ])
    t.equal(others[0].documents.length, 9_000)
    const { documents, total } = await listing
    t.equal(total, 9_000)
    const names = documents.map(({ id }) => id)
    const last = names.pop()
    t.ok(last === '8999' || last === 'new', 'before the commit or after it')
    t.strictSame(
      names,
      Array.from({ length: 8_999 }, (_, i) => `${i}`)
    )
    t.equal((await store.list('key', everything)).documents.at(-1)!.id, 'new')
    t.equal(((await store.get<string>('api', 'big')) as Document<string>).body.length, 1 << 20)
    t.equal((await store.list<string>('api', everything)).documents[0]!.body.length, 1 << 20)
  })

  withStore('everything comes in slices, each document once, whatever is written meanwhile', async (t, store) => {
    const all = Array.from({ length: 1_700 }, (_, i) => `${i}`)
    await store.commit(all.map((id, i) => key(id, 'x'.repeat(i % 900), i % 3 === 0 ? 'third' : 'rest')))
    for (const newestFirst of [false, true]) {
      for (const org of [undefined, 'third', 'none']) {
        const found: string[] = []
        for await (const slice of store.each<string>('key', { newestFirst, ...(org === undefined ? {} : { org }) })) {
          t.ok(slice.length > 0 && slice.length <= 500)
          for (const { id, body } of slice) {
            found.push(id)
            if (!id.startsWith('new') && body.length !== Number(id) % 900) t.fail('another body')
          }
          await store.commit([key(`new ${await keysOf(store).sequence()}`, '')])
        }
        const wanted = all.filter((_, i) => org === undefined || (org === 'third' && i % 3 === 0))
        t.strictSame(
          found.filter(id => !id.startsWith('new')),
          newestFirst ? wanted.reverse() : wanted
        )
      }
    }
    for await (const slice of store.each('key', { idsOnly: true })) {
      t.equal(slice[0]!.body, null)
      break
    }
  })

  withStore('changes come in order, each document once with its newest state', async (t, whole) => {
    const store = keysOf(whole)
    t.strictSame(await store.since(0), [])
    await store.commit([key('a'), key('b'), key('c')])
    await store.commit([key('a'), { kind: 'policy', id: 'p', org: '', body: 1 }])
    await store.commit([gone('b'), gone('c')])
    await store.commit([key('c')])
    const change = (sequence: number, kind: Kind, id: string, deleted = false): Change => ({
      sequence,
      kind,
      id,
      deleted
    })
    const sorted = (changes: readonly Change[] | null) =>
      changes!.toSorted((a, b) => a.sequence - b.sequence || (a.id < b.id ? -1 : 1))
    const all = [change(2, 'key', 'a'), change(2, 'policy', 'p'), change(3, 'key', 'b', true), change(4, 'key', 'c')]
    t.strictSame(sorted(await store.since(0)), all)
    t.strictSame(sorted(await store.since(2)), all.slice(2))
    t.strictSame(sorted(await store.since(0, ['policy', 'user'])), [change(2, 'policy', 'p')])
    t.strictSame(sorted(await store.since(2, ['key'])), all.slice(2))
    t.strictSame(await store.since(0, []), [])
    t.strictSame(await store.since(4), [])
    t.equal(await store.since(5), null, 'a sequence that this store never gave')
  })

  withStore('when deletions are forgotten, older changes cannot be told', async (t, whole) => {
    const store = keysOf(whole)
    await store.commit([key('x')])
    const x = await store.commit([gone('x')])
    const commits = 40
    const sequences: number[] = []
    for (let round = 0; round < commits; round++) {
      const ids = Array.from({ length: deletionsKept / commits }, (_, i) => `${round} ${i}`)
      sequences.push(await store.commit(ids.flatMap(id => [key(id), gone(id)])))
    }
    t.equal(await store.since(x - 1), null)
    t.equal((await store.since(x))?.length, deletionsKept)
    t.equal((await store.since(sequences[commits / 2 - 1]!))?.length, deletionsKept / 2)
    t.strictSame(await store.since(sequences.at(-1)!), [])
  })

  t.test('every page is what a plain list of documents says', async t => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 12 }),
        fc.array(look, { minLength: 5, maxLength: 20 }),
        async (steps, looks) => {
          const store = await make(t)
          try {
            const model = new Map<string, string>()
            for (const { from, count, every, org } of steps) {
              const names = Array.from({ length: count }, (_, i) => `${from + i}`).filter((_, i) => i % every === 0)
              await store.commit(names.map(id => (org === null ? gone(id) : key(id, 0, org))))
              for (const id of names) {
                if (org === null) model.delete(id)
                else model.set(id, org)
              }
            }
            for (const { org, page, size, newestFirst, contains } of looks) {
              const expected = [...model.keys()].filter(
                id => (org === undefined || model.get(id) === org) && id.includes(contains)
              )
              if (newestFirst) expected.reverse()
              const query = { page, size, newestFirst, contains, ...(org === undefined ? {} : { org }) }
              const found = await store.list('key', { ...query, idsOnly: true })
              const from = (Math.max(page, 1) - 1) * size
              const wanted = page < 0 ? expected : expected.slice(from, from + size)
              if (found.total !== expected.length) throw new Error(`total ${found.total}, not ${expected.length}`)
              if (found.documents.map(({ id }) => id).join() !== wanted.join()) throw new Error('another page')
            }
          } finally {
            await store.close()
          }
        }
      ),
      { numRuns: 25 }
    )
    t.pass()
  })

  t.test('a closed store is unavailable, closing twice is fine', async t => {
    const store = await make(t)
    const last = store.commit([key('a')])
    await last
    await store.close()
    await store.close()
    await unavailable(t, () => store.commit([key('b')]))
    await unavailable(t, () => store.list('key', everything))
    await unavailable(t, () => store.since(0))
    await unavailable(t, async () => {
      for await (const _ of store.each('key', {})) t.fail('a slice')
    })
    await unavailable(t, () => store.sequence())
    await unavailable(t, () => store.get('key', 'a'))
  })
}

/** The call fails with Unavailable, at once or as a promise. */
export async function unavailable(t: Test, call: () => unknown): Promise<void> {
  const error = await (async () => call())().catch((error: unknown) => error)
  t.ok(error instanceof Unavailable, String(error))
}

const organisations = ['', 'o1', 'o2', 'o3'] as const
/** Every so many of a run of ids are put into the organisation, or deleted. Runs are long enough to cross blocks. */
const step = fc.record({
  from: fc.nat(2_500),
  count: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 2_500 })),
  every: fc.integer({ min: 1, max: 4 }),
  org: fc.option(fc.constantFrom(...organisations), { freq: 2 })
})
const look = fc.record({
  org: fc.constantFrom(undefined, ...organisations),
  page: fc.oneof(fc.constantFrom(-1, 0, 1), fc.nat(300)),
  size: fc.oneof(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 3_000 })),
  newestFirst: fc.boolean(),
  contains: fc.oneof(
    { weight: 4, arbitrary: fc.constant('') },
    { weight: 1, arbitrary: fc.constantFrom('1', '23', 'x') }
  )
})
