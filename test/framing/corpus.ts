/** One thing that a client may send, and what must become of it. Bytes as latin1. */
export interface Case {
  readonly name: string
  /** Clause of RFC 9112, or of RFC 9110 where it says so, or why we are stricter than it. */
  readonly why: string
  readonly bytes: string
  /** The connection ends with this status, and nothing at all reaches the upstream. */
  readonly refused?: number
  /** Answered by the gateway itself; the connection goes on. */
  readonly answered?: number
  /** Forwarded exactly once, with this framing and no other. */
  readonly passes?: Passes
}

export interface Passes {
  /** `empty`: no body, told in whichever way. */
  readonly framing: 'none' | 'length' | 'chunked' | 'empty'
  readonly body?: string
  /** The request line that the upstream sees. */
  readonly line?: string
  /** Header or trailer names (lower case) that must not arrive, and those that must. */
  readonly lacks?: readonly string[]
  readonly has?: readonly string[]
  /** What follows is no request: answered with this status once the first answer has gone, and the connection ends. */
  readonly behind?: number
  /** The connection ends behind the answer, and what follows is nobody's. */
  readonly closes?: true
  /** What follows is part of this request. */
  readonly swallows?: true
}

const HOST = 'Host: a.test\r\n'

const none: Passes = { framing: 'none' }
const empty: Passes = { framing: 'empty' }
const five: Passes = { framing: 'length', body: 'hello' }
const chunked: Passes = { framing: 'chunked', body: 'hello' }
const CHUNKS = '5\r\nhello\r\n0\r\n\r\n'

const post = (fields: string, body = 'hello') => `POST /x HTTP/1.1\r\n${HOST}${fields}\r\n${body}`
const get = (fields: string) => `GET /x HTTP/1.1\r\n${fields}\r\n`
const line = (text: string) => `${text}\r\n${HOST}\r\n`

type Row = readonly [name: string, why: string, bytes: string, end: number | Passes]

const rows = (all: readonly Row[]): Case[] =>
  all.map(([name, why, bytes, end]) => ({
    name,
    why,
    bytes,
    ...(typeof end === 'number' ? { refused: end } : { passes: end })
  }))

const lengths = (
  [
    ['one', '6.2', '5', five],
    ['leading zeros', '6.2: 1*DIGIT', '00005', five],
    ['a space behind', '5.1: OWS is no part of the value', '5 ', five],
    ['tabs around', '5.1', '\t5\t', five],
    ['a plus', '6.2', '+5', 400],
    ['a minus', '6.2', '-5', 400],
    ['hexadecimal', '6.2', '0x5', 400],
    ['a fraction', '6.2', '5.0', 400],
    ['an exponent', '6.2', '5e0', 400],
    ['empty', '6.2', '', 400],
    ['a word', '6.2', 'five', 400],
    ['two numbers', '6.2', '5 5', 400],
    ['a parameter', '6.2', '5;a=b', 400],
    ['quoted', '6.2', '"5"', 400],
    ['a list of equals', '6.3 lets a recipient refuse it', '5, 5', 400],
    ['a list of different', '6.3', '5, 6', 400],
    ['a list with nothing', '6.3', '5,', 400],
    ['20 digits', '6.2: overflow', '10000000000000000005', 400],
    ['2^64 and 5', '6.2: overflow', '18446744073709551621', 400],
    ['2^53 and more', '6.2: more than counts exactly', '9007199254740993', 400],
    ['NUL behind', 'RFC 9110 5.5', '5\0', 400],
    ['vertical tab before', 'RFC 9110 5.5', '\x0b5', 400],
    ['form feed behind', 'RFC 9110 5.5', '5\x0c', 400],
    ['wide digits', '6.2', '\xef\xbc\x95', 400],
    ['superscript', '6.2', '\xb2', 400]
  ] as const
).map(([name, why, value, end]): Row => [`Content-Length: ${name}`, why, post(`Content-Length: ${value}\r\n`), end])

const codings = (
  [
    ['plain', '7.1', 'chunked', chunked],
    ['upper case', '7: names of codings have no case', 'CHUNKED', chunked],
    ['spaces around', '5.1', '  chunked  ', chunked],
    ['a tab before', '5.1', '\tchunked', chunked],
    ['a tab behind', '5.1: stricter, as some take the tab for a part of the name', 'chunked\t', 400],
    ['twice in a list', '6.1: chunked once', 'chunked, chunked', 400],
    ['behind gzip', '6.1: a coding that we do not speak', 'gzip, chunked', 400],
    ['before gzip', '6.3: chunked is not final', 'chunked, gzip', 400],
    ['identity', '6.1: no coding of RFC 9112', 'identity', 400],
    ['identity and chunked', '6.1', 'identity, chunked', 400],
    ['a longer name before', '6.1', 'xchunked', 400],
    ['a longer name behind', '6.1', 'chunkedx', 400],
    ['a parameter', '7: chunked has none', 'chunked;x=1', 400],
    ['quoted', '6.1', '"chunked"', 400],
    ['half', '6.1', 'chunk', 400],
    ['empty', '6.1', '', 400],
    ['a comma before', '6.1', ',chunked', 400],
    ['a comma behind', '6.1', 'chunked,', 400],
    ['vertical tab before', 'RFC 9110 5.5', '\x0bchunked', 400],
    ['NUL behind', 'RFC 9110 5.5', 'chunked\0', 400],
    ['non-breaking space before', '6.1', '\xa0chunked', 400],
    ['folded before', '5.2', '\r\n chunked', 400],
    ['folded within', '5.2', 'chun\r\n ked', 400],
    ['folded behind', '5.2', 'chunked\r\n , identity', 400]
  ] as const
).map(
  ([name, why, value, end]): Row => [
    `Transfer-Encoding: ${name}`,
    why,
    post(`Transfer-Encoding: ${value}\r\n`, CHUNKS),
    end
  ]
)

const twoFramings: Row[] = [
  ['length, then chunked', '6.1', post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', CHUNKS), 400],
  ['chunked, then length', '6.1', post('Transfer-Encoding: chunked\r\nContent-Length: 5\r\n', CHUNKS), 400],
  ['length 0 and chunked', '6.1', post('Content-Length: 0\r\nTransfer-Encoding: chunked\r\n', CHUNKS), 400],
  ['length and identity', '6.1', post('Content-Length: 5\r\nTransfer-Encoding: identity\r\n'), 400],
  ['length and an unknown coding', '6.1', post('Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n'), 400],
  ['length and an empty coding', '6.1', post('Content-Length: 5\r\nTransfer-Encoding:\r\n'), 400],
  ['two equal lengths', '6.3 lets a recipient refuse it', post('Content-Length: 5\r\nContent-Length: 5\r\n'), 400],
  ['two different lengths', '6.3', post('Content-Length: 5\r\nContent-Length: 6\r\n'), 400],
  ['a length and an empty one', '6.3', post('Content-Length: 5\r\nContent-Length:\r\n'), 400],
  ['two spellings of the length', '6.3', post('Content-Length: 5\r\ncontent-length: 6\r\n'), 400],
  ['chunked in two fields', '6.1', post('Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n', CHUNKS), 400],
  ['chunked, then identity', '6.1', post('Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n', CHUNKS), 400],
  ['identity, then chunked', '6.1', post('Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n', CHUNKS), 400],
  [
    'gzip and chunked in two fields',
    '6.1',
    post('Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n', CHUNKS),
    400
  ],
  [
    'an underscore in the coding',
    'some servers read it as a hyphen',
    post('Transfer_Encoding: chunked\r\n', CHUNKS),
    400
  ],
  ['an underscore in the length', 'some servers read it as a hyphen', post('Content_Length: 5\r\n'), 400],
  ['an underscore in one of both', 'as above', post('Content-Length: 5\r\nTransfer_Encoding: chunked\r\n'), 400],
  ['a space before the colon of the coding', '5.1', post('Transfer-Encoding : chunked\r\n', CHUNKS), 400],
  ['a space before the colon of the length', '5.1', post('Content-Length : 5\r\n'), 400],
  ['a tab before the colon', '5.1', post('Transfer-Encoding\t: chunked\r\n', CHUNKS), 400],
  ['a NUL in the name of the coding', 'RFC 9110 5.1', post('Transfer-Encoding\0: chunked\r\n', CHUNKS), 400],
  ['a coding folded onto another field', '5.2', post('X: y\r\n Transfer-Encoding: chunked\r\n', CHUNKS), 400],
  ['a coding behind a bare LF', '2.2', post('X: y\nTransfer-Encoding: chunked\r\n', CHUNKS), 400],
  ['a coding behind a bare CR', '2.2', post('X: y\rTransfer-Encoding: chunked\r\n', CHUNKS), 400],
  [
    'chunked in HTTP/1.0',
    '6.1: faulty framing',
    `POST /x HTTP/1.0\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n${CHUNKS}`,
    400
  ],
  [
    'chunked in HTTP/1.0, connection kept',
    '6.1',
    `POST /x HTTP/1.0\r\n${HOST}Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n${CHUNKS}`,
    400
  ],
  [
    'a length in HTTP/1.0',
    '6.2',
    `POST /x HTTP/1.0\r\n${HOST}Content-Length: 5\r\n\r\nhello`,
    { ...five, closes: true }
  ],
  ['lower-case names', '5.1', post('content-length: 5\r\n'), five],
  ['upper-case names', '5.1', post('TRANSFER-ENCODING: chunked\r\n', CHUNKS), chunked],
  [
    'GET with a length',
    'RFC 9110 9.3.1: content without meaning',
    `GET /x HTTP/1.1\r\n${HOST}Content-Length: 5\r\n\r\nhello`,
    five
  ],
  [
    'GET with chunks',
    'RFC 9110 9.3.1',
    `GET /x HTTP/1.1\r\n${HOST}Transfer-Encoding: chunked\r\n\r\n${CHUNKS}`,
    chunked
  ],
  ['HEAD with a length', 'RFC 9110 9.3.2', `HEAD /x HTTP/1.1\r\n${HOST}Content-Length: 5\r\n\r\nhello`, five],
  ['DELETE with a length', 'RFC 9110 9.3.5', `DELETE /x HTTP/1.1\r\n${HOST}Content-Length: 5\r\n\r\nhello`, five],
  ['OPTIONS with a length', 'RFC 9110 9.3.7', `OPTIONS /x HTTP/1.1\r\n${HOST}Content-Length: 5\r\n\r\nhello`, five],
  ['GET with length 0', '6.2', get(`${HOST}Content-Length: 0\r\n`), none],
  ['POST without framing', '6.3: no body', post('', ''), empty],
  [
    'POST whose body looks like a request',
    '6.2',
    post('Content-Length: 38\r\n', 'GET /within HTTP/1.1\r\nHost: a.test\r\n\r\n'),
    { framing: 'length', body: 'GET /within HTTP/1.1\r\nHost: a.test\r\n\r\n' }
  ],
  [
    'a length of more than comes',
    '6.3: the next request is its body',
    post('Content-Length: 43\r\n'),
    { framing: 'length', body: 'helloGET /behind HTTP/1.1\r\nHost: a.test\r\n\r\n', swallows: true }
  ]
]

const chunks = (
  [
    ['upper-case size', '7.1', 'A\r\n0123456789\r\n0\r\n\r\n', { framing: 'chunked', body: '0123456789' }],
    ['zeros before the size', '7.1', '00005\r\nhello\r\n0\r\n\r\n', chunked],
    ['many zeros as the last size', '7.1: 1*("0")', '5\r\nhello\r\n0000\r\n\r\n', chunked],
    ['no chunk but the last', '7.1', '0\r\n\r\n', empty],
    ['an extension', '7.1.1: passed over', '5;a=b\r\nhello\r\n0\r\n\r\n', chunked],
    ['a quoted extension', '7.1.1', '5;a="b;c"\r\nhello\r\n0;x\r\n\r\n', chunked],
    ['an extension of 20 KB', '7.1.1: a bound', `5;a=${'b'.repeat(20_000)}\r\nhello\r\n0\r\n\r\n`, 400],
    ['an extension with a bare LF', '7.1.1', '5;a\nb\r\nhello\r\n0\r\n\r\n', 400],
    ['an extension with a bare CR', '7.1.1', '5;a\rb\r\nhello\r\n0\r\n\r\n', 400],
    ['an extension with NUL', '7.1.1', '5;a\0\r\nhello\r\n0\r\n\r\n', 400],
    ['a negative size', '7.1', '-5\r\nhello\r\n0\r\n\r\n', 400],
    ['a plus', '7.1', '+5\r\nhello\r\n0\r\n\r\n', 400],
    ['0x', '7.1', '0x5\r\nhello\r\n0\r\n\r\n', 400],
    ['no digit', '7.1', '\r\nhello\r\n0\r\n\r\n', 400],
    ['a letter that is no digit', '7.1', 'g\r\nhello\r\n0\r\n\r\n', 400],
    ['a space before', '7.1', ' 5\r\nhello\r\n0\r\n\r\n', 400],
    ['a space behind', '7.1', '5 \r\nhello\r\n0\r\n\r\n', 400],
    ['a tab behind', '7.1', '5\t\r\nhello\r\n0\r\n\r\n', 400],
    ['an underscore', '7.1', '0_5\r\nhello\r\n0\r\n\r\n', 400],
    ['overflow of 64 bits', '7.1: overflow', '10000000000000005\r\nhello\r\n0\r\n\r\n', 400],
    ['many digits', '7.1: overflow', 'fffffffffffffffffffffff\r\nhello\r\n0\r\n\r\n', 400],
    ['LF behind the size', '7.1', '5\nhello\r\n0\r\n\r\n', 400],
    ['CR alone behind the size', '7.1', '5\rhello\r\n0\r\n\r\n', 400],
    ['two CR behind the size', '7.1', '5\r\r\nhello\r\n0\r\n\r\n', 400],
    ['LF behind the data', '7.1', '5\r\nhello\n0\r\n\r\n', 400],
    ['nothing behind the data', '7.1', '5\r\nhello0\r\n\r\n', 400],
    ['more data than the size', '7.1', '4\r\nhello\r\n0\r\n\r\n', 400],
    ['less data than the size', '7.1', '6\r\nhello\r\n0\r\n\r\n', 400],
    ['LF behind the last size', '7.1', '5\r\nhello\r\n0\n\r\n', 400],
    ['only LF at the end', '7.1', '5\r\nhello\r\n0\r\n\n', 400],
    ['a trailer', '7.1.2', '5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n', chunked],
    ['Transfer-Encoding as a trailer', 'RFC 9110 6.5.1', '5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n', 400],
    ['Content-Length as a trailer', 'RFC 9110 6.5.1', '5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n', 400],
    [
      'Host as a trailer',
      'RFC 9110 6.5.1',
      '5\r\nhello\r\n0\r\nHost: evil\r\n\r\n',
      { ...chunked, lacks: ['trailer:host'] }
    ],
    [
      'Authorization as a trailer',
      'RFC 9110 6.5.1',
      '5\r\nhello\r\n0\r\nAuthorization: x\r\n\r\n',
      { ...chunked, lacks: ['trailer:authorization'] }
    ],
    ['a folded trailer', '5.2', '5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n', 400],
    ['a trailer with a space before the colon', '5.1', '5\r\nhello\r\n0\r\nX : a\r\n\r\n', 400],
    ['a trailer that ends in LF', '2.2', '5\r\nhello\r\n0\r\nX: a\n\r\n', 400],
    ['a trailer with NUL', 'RFC 9110 5.5', '5\r\nhello\r\n0\r\nX: a\0\r\n\r\n', 400],
    ['a trailer without a colon', '5.1', '5\r\nhello\r\n0\r\nGET /within HTTP/1.1\r\n\r\n', 400],
    ['trailers of 20 KB', 'a bound', `5\r\nhello\r\n0\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
    [
      'bytes behind the last chunk',
      '9.3: they would be a request',
      '5\r\nhello\r\n0\r\n\r\nX',
      { ...chunked, behind: 501 }
    ]
  ] as const
).map(([name, why, body, end]): Row => [`chunks: ${name}`, why, post('Transfer-Encoding: chunked\r\n', body), end])

const fields: Row[] = [
  ['an ordinary request', '3', get(HOST), none],
  ['a folded value', '5.2', get(`${HOST}X: a\r\n b\r\n`), 400],
  ['a value folded with a tab', '5.2', get(`${HOST}X: a\r\n\tb\r\n`), 400],
  ['a folded Host', '5.2', get('Host: a.\r\n test\r\n'), 400],
  ['a space before the first field', '2.2', get(` X: a\r\n${HOST}`), 400],
  ['a tab before the first field', '2.2', get(`\tX: a\r\n${HOST}`), 400],
  ['a line of one space', '2.2', get(`${HOST} \r\n`), 400],
  ['LF behind the request line', '2.2 lets a recipient refuse it', `GET /x HTTP/1.1\n${HOST}\r\n`, 400],
  ['LF behind a field', '2.2', get('Host: a.test\nX: y\r\n'), 400],
  ['LF at the end of the head', '2.2', `GET /x HTTP/1.1\r\n${HOST}\n`, 400],
  ['LF everywhere', '2.2', 'GET /x HTTP/1.1\nHost: a.test\n\n', 400],
  ['CR behind the request line', '2.2', `GET /x HTTP/1.1\r${HOST}\r\n`, 400],
  ['CR in a value', '2.2', get(`${HOST}X: a\rb\r\n`), 400],
  ['CR at the end of a value', '2.2', get(`${HOST}X: a\r\r\n`), 400],
  ['CR in a name', '2.2', get(`${HOST}X\rY: a\r\n`), 400],
  ['NUL in a value', 'RFC 9110 5.5', get(`${HOST}X: a\0b\r\n`), 400],
  ['NUL in a name', 'RFC 9110 5.1', get(`${HOST}X\0: a\r\n`), 400],
  ['a control character in a value', 'RFC 9110 5.5', get(`${HOST}X: a\x01\r\n`), 400],
  ['escape in a value', 'RFC 9110 5.5', get(`${HOST}X: \x1b[0m\r\n`), 400],
  ['DEL in a value', 'RFC 9110 5.5', get(`${HOST}X: a\x7f\r\n`), 400],
  ['a tab in a value', 'RFC 9110 5.5', get(`${HOST}X: a\tb\r\n`), { ...none, has: ['x'] }],
  ['8-bit bytes in a value', 'RFC 9110 5.5: obs-text', get(`${HOST}X: caf\xe9 \xc3\xa9\r\n`), { ...none, has: ['x'] }],
  ['an empty value', 'RFC 9110 5.5', get(`${HOST}X:\r\n`), { ...none, has: ['x'] }],
  ['a colon in a value', '5', get(`${HOST}X: a:b\r\n`), { ...none, has: ['x'] }],
  ['a space before the colon', '5.1', get(`${HOST}X : a\r\n`), 400],
  ['an empty name', '5', get(`${HOST}: a\r\n`), 400],
  ['a space in a name', 'RFC 9110 5.1', get(`${HOST}X Y: a\r\n`), 400],
  ['a line without a colon', '5', get(`${HOST}nonsense\r\n`), 400],
  ['a request line as a field', '5', get(`${HOST}GET /within HTTP/1.1\r\n`), 400],
  ['a parenthesis in a name', 'RFC 9110 5.6.2', get(`${HOST}X(: a\r\n`), 400],
  ['a quote in a name', 'RFC 9110 5.6.2', get(`${HOST}X": a\r\n`), 400],
  ['an @ in a name', 'RFC 9110 5.6.2', get(`${HOST}X@: a\r\n`), 400],
  ['a slash in a name', 'RFC 9110 5.6.2', get(`${HOST}X/Y: a\r\n`), 400],
  ['a bracket in a name', 'RFC 9110 5.6.2', get(`${HOST}X[0]: a\r\n`), 400],
  ['a brace in a name', 'RFC 9110 5.6.2', get(`${HOST}X{: a\r\n`), 400],
  ['a semicolon in a name', 'RFC 9110 5.6.2', get(`${HOST}X;: a\r\n`), 400],
  ['an 8-bit name', 'RFC 9110 5.6.2', get(`${HOST}X\xe9: a\r\n`), 400],
  ['DEL in a name', 'RFC 9110 5.6.2', get(`${HOST}X\x7f: a\r\n`), 400],
  [
    'every odd character that a name may have',
    'RFC 9110 5.6.2',
    get(`${HOST}!#$%&'*+-.^_\`|~9: a\r\n`),
    { ...none, has: ["!#$%&'*+-.^_`|~9"] }
  ],
  ['an underscore in a name', 'RFC 9110 5.6.2', get(`${HOST}X_Y: a\r\n`), { ...none, has: ['x_y'] }],
  ['the same name often', 'RFC 9110 5.3', get(`${HOST}X: a\r\nX: b\r\nx: c\r\n`), { ...none, has: ['x'] }],
  ['990 fields', 'none is dropped', get(`${HOST}${'a:\r\n'.repeat(990)}Z: last\r\n`), { ...none, has: ['z'] }],
  ['a value of 15 KB', 'a bound', get(`${HOST}X: ${'a'.repeat(15_000)}\r\n`), { ...none, has: ['x'] }],
  ['a value of 20 KB', 'a bound', get(`${HOST}X: ${'a'.repeat(20_000)}\r\n`), 431],
  ['a name of 20 KB', 'a bound', get(`${HOST}${'a'.repeat(20_000)}: x\r\n`), 431],
  [
    'a coding behind 1,200 fields',
    'a bound',
    post(`${'a:\r\n'.repeat(1_200)}Transfer-Encoding: chunked\r\n`, CHUNKS),
    431
  ],
  ['10,000 fields', 'a bound', get(`${HOST}${'a:\r\n'.repeat(10_000)}`), 431],
  ['fields without an end', 'a bound', `GET /x HTTP/1.1\r\n${HOST}${'X: aaaaaaaa\r\n'.repeat(20_000)}`, 431]
]

const hosts = (
  [
    ['with a port', '3.2', 'a.test:8080', none],
    ['with an empty port', 'RFC 3986 3.2.3', 'a.test:', none],
    ['upper case', 'RFC 9110 4.2.3', 'A.TEST', none],
    ["with the root's dot", 'RFC 3986 3.2.2', 'a.test.', none],
    ['an IPv4 address', '3.2', '127.0.0.1', none],
    ['an IPv6 address', '3.2', '[::1]:80', none],
    ['an underscore', 'RFC 3986 3.2.2', 'a_b.test', none],
    ['empty', 'RFC 9110 4.2.1: http has a host', '', 400],
    ['a space', '3.2', 'a b', 400],
    ['a tab', '3.2', 'a\tb', 400],
    ['a path', '3.2', 'a.test/b', 400],
    ['a path and an @', '3.2', 'a/b@c', 400],
    ['userinfo', 'RFC 9110 4.2.4', 'user@a.test', 400],
    ['userinfo with a password', 'RFC 9110 4.2.4', 'user:pass@a.test', 400],
    ['a port that is a word', '3.2', 'a.test:http', 400],
    ['a negative port', '3.2', 'a.test:-1', 400],
    ['a port of six digits', '3.2', 'a.test:123456', 400],
    ['two ports', '3.2', 'a.test:80:80', 400],
    ['only a port', 'RFC 9110 4.2.1', ':80', 400],
    ['a list', '3.2: one host', 'a.test, b.test', 400],
    ['a list without spaces', '3.2: one host', 'a.test,b.test', 400],
    ['a URL', '3.2', 'http://a.test', 400],
    ['a query', '3.2', 'a.test?x', 400],
    ['a fragment', '3.2', 'a.test#x', 400],
    ['a backslash', '3.2', 'a.test\\b', 400],
    ['a bracket that does not close', '3.2', '[::1', 400],
    ['a bracket with a name', '3.2', '[a.test]', 400],
    ['8-bit bytes', '3.2', 'caf\xe9.test', 400],
    ['NUL', 'RFC 9110 5.5', 'a.test\0', 400],
    ['quotes', '3.2', '"a.test"', 400]
  ] as const
).map(([name, why, value, end]): Row => [`Host: ${name}`, why, get(`Host: ${value}\r\n`), end])

const moreHosts: Row[] = [
  ['no Host', '3.2', get('X: y\r\n'), 400],
  ['no field at all', '3.2', 'GET /x HTTP/1.1\r\n\r\n', 400],
  ['two equal Hosts', '3.2', get(`${HOST}${HOST}`), 400],
  ['two different Hosts', '3.2', get(`${HOST}Host: b.test\r\n`), 400],
  ['two spellings of Host', '3.2', get(`${HOST}hOST: b.test\r\n`), 400],
  ['a Host and an empty one', '3.2', get(`${HOST}Host:\r\n`), 400],
  ['two Hosts with 60 fields between', '3.2', get(`${HOST}${'X: y\r\n'.repeat(60)}Host: b.test\r\n`), 400],
  ['two Hosts with 990 fields between', '3.2', get(`${HOST}${'a:\r\n'.repeat(990)}Host: b.test\r\n`), 400],
  ['two Hosts with 1,200 fields between', 'a bound', get(`${HOST}${'a:\r\n'.repeat(1_200)}Host: b.test\r\n`), 431],
  ['a space before the colon of Host', '5.1', get('Host : a.test\r\n'), 400],
  ['a Host in lower case', '5.1', get('host: a.test\r\n'), none],
  ['two Hosts in HTTP/1.0', '3.2', 'GET /x HTTP/1.0\r\nHost: a.test\r\nHost: b.test\r\n\r\n', 400],
  ['no Host in HTTP/1.0', '3.2', 'GET /x HTTP/1.0\r\n\r\n', { ...none, closes: true }],
  ['no Host in HTTP/1.0, connection kept', '9.3', 'GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n', none]
]

const targets = (
  [
    ['the root', '3.2.1', '/', { ...none, line: 'GET / HTTP/1.1' }],
    ['a query', '3.2.1', '/x?a=1&b=%20?/', { ...none, line: 'GET /x?a=1&b=%20?/ HTTP/1.1' }],
    ['an empty query', '3.2.1', '/x?', { ...none, line: 'GET /x? HTTP/1.1' }],
    ['two slashes', 'RFC 3986 3.3', '//b.test/x', { ...none, line: 'GET //b.test/x HTTP/1.1' }],
    ['dot segments', 'RFC 3986 5.2.4', '/a/../../x', { ...none, line: 'GET /x HTTP/1.1' }],
    ['dot segments in the query', 'RFC 3986 3.4', '/x?/../y', { ...none, line: 'GET /x?/../y HTTP/1.1' }],
    ['an escape that is none', 'left to the upstream', '/%zz', { ...none, line: 'GET /%zz HTTP/1.1' }],
    ['an escaped NUL', 'left to the upstream', '/x%00', { ...none, line: 'GET /x%00 HTTP/1.1' }],
    ['an escaped line end', 'never unescaped', '/x%0d%0aX:%20y', { ...none, line: 'GET /x%0d%0aX:%20y HTTP/1.1' }],
    ['absolute', '3.2.2', 'http://a.test/y?z', { ...none, line: 'GET /y?z HTTP/1.1' }],
    ['absolute in upper case', 'RFC 9110 4.2.3', 'HTTP://A.TEST/y', { ...none, line: 'GET /y HTTP/1.1' }],
    ['absolute with the usual port', 'RFC 9110 4.2.3', 'http://a.test:80/y', { ...none, line: 'GET /y HTTP/1.1' }],
    ['absolute without a path', '3.2.2', 'http://a.test', { ...none, line: 'GET / HTTP/1.1' }],
    ['absolute without a path, with a query', '3.2.2', 'http://a.test?z', { ...none, line: 'GET /?z HTTP/1.1' }],
    ['absolute with dot segments', 'RFC 3986 5.2.4', 'http://a.test/a/../y', { ...none, line: 'GET /y HTTP/1.1' }],
    ['absolute, another host', '3.2.2: two hosts', 'http://b.test/y', 400],
    ['absolute, another port', '3.2.2: two authorities', 'http://a.test:81/y', 400],
    ['absolute, a host that begins alike', '3.2.2', 'http://a.test.evil/y', 400],
    ['absolute, userinfo', 'RFC 9110 4.2.4', 'http://a.test@b.test/y', 400],
    ['absolute, userinfo before the same host', 'RFC 9110 4.2.4', 'http://u:p@a.test/y', 400],
    ['absolute, https over plain TCP', 'RFC 9110 7.4', 'https://a.test/y', 400],
    ['absolute, another scheme', '3.2.2', 'ftp://a.test/y', 400],
    ['absolute, no host', 'RFC 9110 4.2.1', 'http:///y', 400],
    ['absolute, one slash', '3.2.2', 'http:/y', 400],
    ['absolute, a backslash', '3.2.2', 'http://a.test\\y', 400],
    ['absolute, a fragment', '3.2', 'http://a.test/y#z', 400],
    ['authority', '3.2.3: CONNECT only', 'a.test:80', 400],
    ['asterisk', '3.2.4: OPTIONS only', '*', 400],
    ['a relative path', '3.2', 'x', 400],
    ['only a query', '3.2', '?x', 400],
    ['a fragment', '3.2', '/x#y', 400],
    ['empty', '3', '', 400],
    ['a space', '3', '/a b', 400],
    ['two spaces before the version', '3 lets a recipient take them for one', '/x ', none],
    ['a tab', '3', '/a\tb', 400],
    ['a control character', 'RFC 3986 2', '/a\x01', 400],
    ['DEL', 'RFC 3986 2', '/a\x7f', 400],
    ['NUL', 'RFC 3986 2', '/a\0', 400],
    ['a vertical tab', 'RFC 3986 2', '/a\x0bb', 400],
    ['raw UTF-8', 'RFC 3986 2', '/caf\xc3\xa9', 400],
    ['raw latin1', 'RFC 3986 2', '/caf\xe9', 400],
    ['raw 8-bit in the query', 'RFC 3986 2', '/x?\xff', 400],
    ['a CR', '2.2', '/a\rb', 400],
    ['15 KB', 'a bound', `/${'a'.repeat(15_000)}`, none],
    ['20 KB', 'a bound', `/${'a'.repeat(20_000)}`, 431]
  ] as const
).map(([name, why, target, end]): Row => [`target: ${name}`, why, line(`GET ${target} HTTP/1.1`), end])

const lines: Row[] = [
  ['HTTP/0.9', '3: no version', 'GET /x\r\n', 400],
  ['version 0.9', '2.3', line('GET /x HTTP/0.9'), 400],
  ['version 1.2', '2.3: stricter, as no 1.2 exists', line('GET /x HTTP/1.2'), 400],
  ['version 2.0', '2.3', line('GET /x HTTP/2.0'), 400],
  ['version 3.0', '2.3', line('GET /x HTTP/3.0'), 400],
  ['version 1.10', '2.3', line('GET /x HTTP/1.10'), 400],
  ['version 1', '2.3', line('GET /x HTTP/1'), 400],
  ['version 01.1', '2.3', line('GET /x HTTP/01.1'), 400],
  ['version 1,1', '2.3', line('GET /x HTTP/1,1'), 400],
  ['a version in lower case', '2.3', line('GET /x http/1.1'), 400],
  ['a version of another protocol', '2.3', line('GET /x HTTPS/1.1'), 400],
  [
    'an RTSP version of a known method',
    'the parser takes it for HTTP/1.0: one framing all the same',
    line('GET /x RTSP/1.0'),
    { ...none, closes: true }
  ],
  ['an RTSP request', '2.3', line('DESCRIBE /x RTSP/1.0'), 400],
  ['an RTSP method in HTTP', '3.1', line('DESCRIBE /x HTTP/1.1'), 400],
  ['an ICE request', '2.3', line('SOURCE /x ICE/1.0'), 400],
  ['a space within the version', '2.3', line('GET /x HTTP /1.1'), 400],
  ['a space behind the version', '3', line('GET /x HTTP/1.1 '), 400],
  ['a letter behind the version', '3', line('GET /x HTTP/1.1X'), 400],
  ['two spaces behind the method', '3 lets a recipient take them for one', line('GET  /x HTTP/1.1'), none],
  ['a tab behind the method', '3', line('GET\t/x HTTP/1.1'), 501],
  ['a space before the method', '3', line(' GET /x HTTP/1.1'), 501],
  ['the preface of HTTP/2', 'RFC 9113 3.4: we speak 1.1', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['a TLS greeting', '3', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', 501],
  ['an SMTP greeting', '3', 'EHLO a.test\r\n', 501],
  ['a PROXY line', '3: not configured', `PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n${line('GET /x HTTP/1.1')}`, 501],
  ['one empty line before', '2.2', `\r\n${line('GET /x HTTP/1.1')}`, none],
  ['fifty empty lines before', '2.2', `${'\r\n'.repeat(50)}${line('GET /x HTTP/1.1')}`, none],
  ['an LF before', '2.2', `\n${line('GET /x HTTP/1.1')}`, none],
  ['a CR before', '2.2', `\r${line('GET /x HTTP/1.1')}`, none],
  ['a NUL before', '3', `\0${line('GET /x HTTP/1.1')}`, 501],
  ['a method in lower case', 'RFC 9110 9.1: case counts', line('get /x HTTP/1.1'), 501],
  ['an unknown method', 'RFC 9110 9.1', line('BREW /x HTTP/1.1'), 501],
  ['a method of 10 KB', 'RFC 9110 9.1', line(`${'A'.repeat(10_000)} /x HTTP/1.1`), 501],
  ['a known method and a letter', 'RFC 9110 9.1', line('GETS /x HTTP/1.1'), 501],
  ['an @ in the method', 'RFC 9110 9.1', line('G@T /x HTTP/1.1'), 501],
  ['no method', '3', line('/x HTTP/1.1'), 501],
  ['PATCH', 'RFC 5789', line('PATCH /x HTTP/1.1'), empty],
  ['PROPFIND', 'RFC 4918', line('PROPFIND /x HTTP/1.1'), empty],
  ['QUERY', 'a method that Node knows', line('QUERY /x HTTP/1.1'), empty],
  ['M-SEARCH', 'a method that Node knows', line('M-SEARCH /x HTTP/1.1'), empty],
  ['TRACE', 'RFC 9110 9.3.8', line('TRACE /x HTTP/1.1'), none],
  ['CONNECT', 'RFC 9110 9.3.6: we are no tunnel', 'CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n', 405],
  ['CONNECT to a path', '3.2.3', line('CONNECT /x HTTP/1.1'), 405]
]

const connections: Row[] = [
  ['Connection: close', '9.6', get(`${HOST}Connection: close\r\n`), { ...none, closes: true }],
  [
    'Connection: keep-alive',
    '9.3',
    get(`${HOST}Connection: keep-alive\r\nKeep-Alive: 5\r\n`),
    { ...none, lacks: ['keep-alive'] }
  ],
  [
    'Connection names a field',
    'RFC 9110 7.6.1',
    get(`${HOST}Connection: X-Hop\r\nX-Hop: 1\r\nX: 2\r\n`),
    { ...none, lacks: ['x-hop'], has: ['x'] }
  ],
  [
    'Connection in two fields',
    'RFC 9110 7.6.1',
    get(`${HOST}Connection: X-A\r\nX-A: 1\r\nX-B: 2\r\nConnection: x-b\r\n`),
    { ...none, lacks: ['x-a', 'x-b'] }
  ],
  [
    'Connection names Content-Length',
    'the framing is ours',
    post('Connection: Content-Length\r\nContent-Length: 5\r\n'),
    five
  ],
  [
    'Connection names Transfer-Encoding',
    'the framing is ours',
    post('Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n', CHUNKS),
    chunked
  ],
  ['Connection names Host', '3.2: Host is ours', get(`${HOST}Connection: Host\r\n`), { ...none, has: ['host'] }],
  ['two credentials', 'RFC 9110 11.6.2, 5.3', get(`${HOST}Authorization: x\r\nAuthorization: y\r\n`), 400],
  ['the same credential twice', 'as above', get(`${HOST}Authorization: x\r\nX: y\r\nauthorization: x\r\n`), 400],
  ['a credential and an empty one', 'as above', get(`${HOST}AUTHORIZATION: x\r\nAuthorization:\r\n`), 400],
  ['one credential', 'RFC 9110 11.6.2', get(`${HOST}Authorization: x\r\n`), { ...none, has: ['authorization'] }],
  [
    'Connection names Authorization',
    'RFC 9110 7.6.1',
    get(`${HOST}Connection: Authorization\r\nAuthorization: x\r\n`),
    { ...none, lacks: ['authorization'] }
  ],
  [
    'Connection names X-Forwarded-For',
    'what we add stays',
    get(`${HOST}Connection: X-Forwarded-For, Via, X-Request-Id\r\n`),
    { ...none, has: ['x-forwarded-for', 'via', 'x-request-id'] }
  ],
  ['TE without trailers', 'RFC 9110 10.1.4', get(`${HOST}TE: gzip\r\nConnection: TE\r\n`), { ...none, lacks: ['te'] }],
  [
    'Proxy-Authorization and Proxy-Connection',
    'RFC 9110 11.7.2',
    get(`${HOST}Proxy-Authorization: x\r\nProxy-Connection: keep-alive\r\n`),
    { ...none, lacks: ['proxy-authorization', 'proxy-connection'] }
  ],
  [
    'Upgrade with a body',
    'RFC 9110 7.8: passed over',
    post('Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n'),
    { ...five, lacks: ['upgrade'], closes: true }
  ],
  [
    'Upgrade with chunks',
    'RFC 9110 7.8',
    post('Connection: Upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n', CHUNKS),
    { ...chunked, lacks: ['upgrade'], closes: true }
  ],
  [
    'Upgrade in HTTP/1.0',
    'RFC 9110 7.8: ignored',
    `GET /x HTTP/1.0\r\n${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    { ...none, lacks: ['upgrade'], closes: true }
  ],
  [
    'Upgrade that Connection does not name',
    'RFC 9110 7.8',
    get(`${HOST}Upgrade: websocket\r\n`),
    { ...none, lacks: ['upgrade'] }
  ],
  [
    'Upgrade: h2c',
    'RFC 9113 3.1: obsolete',
    get(`${HOST}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n`),
    { ...none, lacks: ['upgrade', 'http2-settings'], closes: true }
  ],
  [
    'Upgrade: h2c in a list',
    'RFC 9113 3.1',
    get(`${HOST}Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n`),
    { ...none, lacks: ['upgrade'], closes: true }
  ],
  [
    'Upgrade with two framings',
    '6.1',
    post('Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n', CHUNKS),
    400
  ],
  ['Upgrade with two Hosts', '3.2', get(`${HOST}${HOST}Connection: Upgrade\r\nUpgrade: websocket\r\n`), 400],
  [
    'Expect in HTTP/1.0',
    'RFC 9110 10.1.1: ignored',
    `POST /x HTTP/1.0\r\n${HOST}Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello`,
    { ...five, lacks: ['expect'], closes: true }
  ],
  ['an unknown Expect with a body', 'RFC 9110 10.1.1', post('Expect: a-miracle\r\nContent-Length: 5\r\n'), 417],
  ['garbage behind a request', '9.3', `${get(HOST)}\x01\x02`, { ...none, behind: 501 }],
  ['half a request line behind a request', '9.3', `${get(HOST)}nonsense\r\n\r\n`, { ...none, behind: 501 }],
  ['two Hosts behind a request', '3.2', `${get(HOST)}${get(`${HOST}${HOST}`)}`, { ...none, behind: 400 }],
  ['a folded field behind a request', '5.2', `${get(HOST)}${get(`${HOST}X: a\r\n b\r\n`)}`, { ...none, behind: 400 }],
  [
    'two framings behind a request',
    '6.1',
    `${get(HOST)}${post('Content-Length: 5\r\nTransfer-Encoding: chunked\r\n', CHUNKS)}`,
    { ...none, behind: 400 }
  ],
  [
    'a broken chunk behind a request',
    '7.1',
    `${get(HOST)}${post('Transfer-Encoding: chunked\r\n', '-5\r\nhello\r\n0\r\n\r\n')}`,
    { ...none, behind: 400 }
  ],
  [
    'CONNECT behind a request',
    'RFC 9110 9.3.6',
    `${get(HOST)}CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n`,
    { ...none, behind: 405 }
  ]
]

const answered: Case[] = [
  {
    name: 'OPTIONS *',
    why: '3.2.4: of the server as a whole',
    bytes: `OPTIONS * HTTP/1.1\r\n${HOST}\r\n`,
    answered: 404
  },
  { name: 'an unknown Expect', why: 'RFC 9110 10.1.1', bytes: get(`${HOST}Expect: a-miracle\r\n`), answered: 417 }
]

/** Every case, in groups that the names tell. */
export const corpus: readonly Case[] = [
  ...rows([
    ...lengths,
    ...codings,
    ...twoFramings,
    ...chunks,
    ...fields,
    ...hosts,
    ...moreHosts,
    ...targets,
    ...lines,
    ...connections
  ]),
  ...answered
]
