import { deflateRawSync, gzipSync } from 'node:zlib'
import type { BodyForm } from '../../../control/endpoint.ts'
import type { Headers } from './wire.ts'

/** Bodies that no endpoint is meant to get. */
export interface Bad {
  readonly body: string | Buffer
  /** Default: JSON. */
  readonly type?: string
  readonly headers?: Headers
  /**
   * `never`: no endpoint can take it. `open`: one that takes members of any name may. `any`: it only must not make anyone
   * stumble.
   */
  readonly taken: 'never' | 'open' | 'any'
  /** Takes long to be read: tried once a shape, or once a form of bodies. */
  readonly large?: 'shape' | 'form'
}

const never = (body: string | Buffer, type?: string): Bad => ({ body, taken: 'never', ...(type ? { type } : {}) })
const open = (body: string | Buffer, type?: string): Bad => ({ body, taken: 'open', ...(type ? { type } : {}) })
const large = (bad: Bad): Bad => ({ ...bad, large: 'shape' })
const huge = (bad: Bad): Bad => ({ ...bad, large: 'form' })
const any = (body: string | Buffer, type?: string): Bad => ({ body, taken: 'any', ...(type ? { type } : {}) })

export const LONG = 'x'.repeat(1_000_000)
const nested = (levels: number, first: string, last: string) => first.repeat(levels) + last.repeat(levels)

const texts: Record<string, Bad> = {
  nothing: never(''),
  blank: never(' \n'),
  'no JSON': never('{"a":'),
  'bare word': never('hello'),
  'two values': never('{} {}'),
  text: never('"text"'),
  number: never('7'),
  true: never('true'),
  list: never('[]'),
  null: never('null'),
  'an empty object': any('{}'),
  'a list of documents': never('[{},{}]'),
  'a member twice': never('{"org_id":"a","org_id":"b"}'),
  __proto__: never('{"__proto__":{"rate":1}}'),
  'an escaped __proto__': never('{"\\u005f_proto__":{"rate":1}}'),
  constructor: open('{"constructor":{"prototype":{"rate":1}}}'),
  'names of methods': open('{"toString":1,"valueOf":1,"hasOwnProperty":1,"toJSON":1,"then":1}'),
  'a number that is none': never('{"rate":1e999}'),
  'a number of NaN': never('{"rate":NaN}'),
  'a number of many digits': open(`{"surprise":${'9'.repeat(300)}}`),
  'a large integer alone': never('99999999999999999999'),
  '100 levels': open(nested(99, '{"a":', '}').replace('}', '1}')),
  '101 levels': never(nested(101, '{"a":', '}').replace('}', '1}')),
  '100,000 levels': large(never(nested(100_000, '[', ']'))),
  '100,000 levels that nobody closes': large(never('{"a":'.repeat(100_000))),
  'a long member': large(open(JSON.stringify({ [LONG]: 1 }))),
  'many faults below a long name': large(
    open(
      JSON.stringify({ access_rights: { [LONG]: Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [i, 1])) } })
    )
  ),
  'a long text': large(open(JSON.stringify({ alias: LONG, id: LONG, name: LONG, policy: LONG }))),
  'no UTF-8': never(Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d])),
  'an overlong NUL': never(Buffer.from([0x7b, 0x22, 0xc0, 0x80, 0x22, 0x3a, 0x31, 0x7d])),
  'UTF-16 with its mark': never(Buffer.from('\ufeff{}', 'utf16le')),
  'UTF-16': never(Buffer.from('{"a":1}', 'utf16le')),
  'a byte order mark': any('\ufeff{}'),
  'half a character': open('{"alias":"\\ud800","surprise":1}'),
  NUL: open('{"\\u0000":1}'),
  'NUL itself': never('{"a":"\0"}'),
  'a name that turns the writing around': open('{"\u202egnihtemos":1}'),
  'many members': huge(
    open(JSON.stringify(Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`m${i}`, i]))))
  ),
  'a million wrong members': huge(open(JSON.stringify({ apply_policies: new Array(1_000_000).fill(1), tags: 1 }))),
  'compressed JSON': { ...never(gzipSync('{}')), headers: { 'Content-Encoding': 'gzip' } },
  'JSON that says to be compressed': { ...never('{}'), headers: { 'Content-Encoding': 'gzip' } },
  'a form': never('a=b&c=d', 'application/x-www-form-urlencoded'),
  'a form without its boundary': never('--a\r\n\r\n', 'multipart/form-data'),
  XML: never(
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
    'application/xml'
  ),
  'a type that is none': any('{}', 'nonsense/;;==,,'),
  'a charset that is none': any('{}', 'application/json; charset=utf-99')
}

const YAML = 'application/yaml'
const laughs = [
  'a: &a [x,x,x,x,x,x,x,x,x]',
  ...'bcdefghi'.split('').map((name, i) => {
    const before = 'abcdefgh'[i]!
    return `${name}: &${name} [${new Array(9).fill(`*${before}`).join(',')}]`
  })
].join('\n')

/** JSON is YAML as well: these are what only YAML has. */
const yamls: Record<string, Bad> = {
  'YAML aliases that multiply': never(laughs, YAML),
  'a YAML alias within itself': never('a: &a [*a]', YAML),
  'a YAML alias to nothing': never('a: *b', YAML),
  'a YAML merge key': open('a: &a {b: 1}\nc: {<<: *a}', YAML),
  'a YAML merge key of __proto__': never('__proto__: {a: 1}\n<<: {b: 1}', YAML),
  'a YAML tag of a language': never('a: !!js/function "function () {}"', YAML),
  'a YAML tag of bytes': never('a: !!binary aGVsbG8=', YAML),
  'a YAML tag of its own': never('a: !x 1', YAML),
  'a YAML set': never('a: !!set {b, c}', YAML),
  'YAML names that are no text': never('{[a]: 1}', YAML),
  'YAML twice': never('a: 1\na: 2', YAML),
  'two YAML documents': never('a: 1\n---\nb: 2', YAML),
  'a YAML directive': any('%YAML 9.9\n---\na: 1', YAML),
  'YAML infinity': never('a: .inf', YAML),
  'YAML that is no number': never('a: .nan', YAML),
  'YAML 1.1 words': open('a: yes\nb: 0777\nc: 2020-01-01\nd: 1:30', YAML),
  'YAML with tabs': never('a:\n\tb: 1', YAML),
  'YAML of 100,000 levels': large(never(nested(100_000, '[', ']'), YAML)),
  'YAML of 10,000 dashes': large(never('- '.repeat(10_000), YAML)),
  'YAML of 5,000 levels of space': large(
    never(Array.from({ length: 700 }, (_, i) => `${' '.repeat(i)}a:`).join('\n'), YAML)
  ),
  'YAML that is too long': large(never(`a: ${LONG}`, YAML)),
  'YAML that is a text': never('hello', YAML),
  'YAML that is nothing': never('# hello', YAML),
  'YAML with NUL': open('a: "\0"', YAML),
  'YAML in UTF-16': never(Buffer.from('\ufeffa: 1', 'utf16le'), YAML),
  'a large YAML integer': open(`a: ${'9'.repeat(300)}`, YAML),
  'a YAML integer of 5,000 digits': never(`a: ${'9'.repeat(5000)}`, YAML)
}

const form = (text: string, boundary = 'b') =>
  [text.replaceAll('\n', '\r\n'), `multipart/form-data; boundary=${boundary}`] as const
const part = (head: string, body: string) => `--b\nContent-Disposition: form-data; ${head}\n\n${body}\n`
const file = 'name="file"; filename="a.json"'

/** A zip file of one entry; what stands in it and what it says of itself may differ. */
export function zip(name: string, data: Buffer, size: number, method = 8): Buffer {
  const title = Buffer.from(name)
  const head = (length: number, signature: number) => {
    const bytes = Buffer.alloc(length)
    bytes.writeUInt32LE(signature, 0)
    return bytes
  }
  const about = (bytes: Buffer, at: number) => {
    bytes.writeUInt16LE(method, at)
    bytes.writeUInt32LE(data.length, at + 10)
    bytes.writeUInt32LE(size, at + 14)
    bytes.writeUInt16LE(title.length, at + 18)
  }
  const local = head(30, 0x04034b50)
  about(local, 8)
  const central = head(46, 0x02014b50)
  about(central, 10)
  const end = head(22, 0x06054b50)
  end.writeUInt16LE(1, 8)
  end.writeUInt16LE(1, 10)
  end.writeUInt32LE(central.length + title.length, 12)
  end.writeUInt32LE(local.length + title.length + data.length, 16)
  return Buffer.concat([local, title, data, central, title, end])
}

const ZIP = 'application/zip'
const bomb = deflateRawSync(Buffer.alloc(50_000_000, 0x20))
const PEM = 'application/x-pem-file'
const pem = (inner: string, label = 'CERTIFICATE') => `-----BEGIN ${label}-----\n${inner}\n-----END ${label}-----\n`

const files: Record<string, Bad> = {
  'a zip file that is none': never('PK\x03\x04 nothing', ZIP),
  'a zip file with nothing in it': never(Buffer.concat([Buffer.from('PK\x05\x06'), Buffer.alloc(18)]), ZIP),
  'a zip bomb': large(never(zip('a.json', bomb, 50_000_000), ZIP)),
  'a zip bomb that says to be small': never(zip('a.json', bomb, 10), ZIP),
  'a zip file of a path outside': never(zip('../../etc/passwd', deflateRawSync('{}'), 2), ZIP),
  'a zip file of a rooted path': never(zip('/etc/passwd', deflateRawSync('{}'), 2), ZIP),
  'a zip file of NUL': never(zip('a\0.json', deflateRawSync('{}'), 2), ZIP),
  'a zip file of an unknown method': never(zip('a.json', Buffer.from('{}'), 2, 99), ZIP),
  'a zip file that is cut': never(zip('a.json', bomb, 50_000_000).subarray(0, 30_000), ZIP),
  'a zip file in a form': never(
    Buffer.concat([
      Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n\r\n'),
      zip('a.json', bomb, 10),
      Buffer.from('\r\n--b--\r\n')
    ]),
    'multipart/form-data; boundary=b'
  ),
  'a file of the machine': never('{"url":"file:///etc/passwd"}'),
  'an address within the machine': never('{"url":"http://127.0.0.1:1/"}'),
  'an address within the network': never('{"url":"http://[::ffff:169.254.169.254]/latest"}'),
  'an address of another kind': never('{"url":"gopher://a.example/"}'),
  'an address that is none': never('{"url":"http://"}'),
  'a form of nothing': never(...form('--b--\n')),
  'a form of another boundary': never(...form(`${part(file, '{}')}--b--\n`, 'other')),
  'a form that nobody ends': never(...form(part(file, '{"a":'))),
  'a form that is cut in a head': never(...form('--b\nContent-Dispo')),
  'a form with a boundary of 10,000': never(...form(`${part(file, '{}')}--b--\n`, 'b'.repeat(10_000))),
  'a form of a path outside': never(...form(`${part('name="file"; filename="../../etc/passwd"', '{')}--b--\n`)),
  'a form of __proto__': never(...form(`${part('name="__proto__"', '1')}${part('name="constructor"', '1')}--b--\n`)),
  'a form without names': never(...form('--b\n\n{}\n--b--\n')),
  'a form of 5,000 parts': large(never(...form(`${part(file, '{}').repeat(5000)}--b--\n`))),
  'a form of a long head': large(never(...form(`--b\nX: ${LONG}\n\n{}\n--b--\n`))),
  'a form of many heads': large(never(...form(`--b\n${'X: y\n'.repeat(50_000)}\n{}\n--b--\n`))),
  'a PEM file of nothing': never(pem(''), PEM),
  'a PEM file of no base64': never(pem('!!!!'), PEM),
  'a PEM file of nonsense': never(pem('AAAA'), PEM),
  'a PEM file that nobody ends': never('-----BEGIN CERTIFICATE-----\nAAAA', PEM),
  'a PEM file of a key alone': never(pem('AAAA', 'PRIVATE KEY'), PEM),
  'a PEM file of 5,000': large(never(pem('MAA=').repeat(5000), PEM)),
  'a PEM file of 1 MB': large(never(pem(Buffer.alloc(700_000, 0x30).toString('base64')), PEM)),
  'DER that says to be longer': never(Buffer.from([0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0x30, 0x80]), PEM),
  'DER of 50,000 levels': never(Buffer.alloc(100_000, Buffer.from([0x30, 0x80])), PEM),
  'PKCS#12 that is none': never(Buffer.from([0x30, 0x82, 0x01, 0x00, 0x02, 0x01, 0x03]), 'application/x-pkcs12'),
  'bytes of nothing known': never(Buffer.from(Array.from({ length: 256 }, (_, i) => i)), 'application/octet-stream')
}

/** What an endpoint is tried with, by the form of its body. */
export function bodiesOf(form: BodyForm): readonly (readonly [string, Bad])[] {
  if (form === 'none') return []
  return Object.entries({ ...texts, ...(form === 'json' ? {} : yamls), ...(form === 'bytes' ? files : {}) })
}

/** For rows that read no body: what is sent all the same. */
export const unasked: Readonly<Record<string, Bad>> = {
  'half a body that nobody asked for': any('{'),
  'a long body that nobody asked for': any(LONG),
  'a compressed body that nobody asked for': any(gzipSync('{}'), 'application/zip'),
  'a form that nobody asked for': any('\0'.repeat(1000), 'multipart/form-data; boundary=x')
}
