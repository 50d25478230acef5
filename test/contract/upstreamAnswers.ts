interface Expected {
  readonly body: string
  readonly status?: number
  readonly method?: string
  readonly trailers?: string[]
  readonly informations?: [number, string[]][]
  /** The server closes behind it. */
  readonly closes?: boolean
}

const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
const head = (...lines: string[]) => `HTTP/1.1 200 OK\r\n${lines.map(line => `${line}\r\n`).join('')}\r\n`

/** Answers in latin1, and what must be heard of them. */
export const goodAnswers: readonly [name: string, bytes: string, expected: Expected][] = [
  ['a body of known length', `${head('Content-Length: 5')}hello`, { body: 'hello' }],
  ['an empty body', head('content-length: 0'), { body: '' }],
  ['a chunked body', `${CHUNKED}5\r\nhello\r\n0A\r\n0123456789\r\n0\r\n\r\n`, { body: 'hello0123456789' }],
  ['a chunked body in capitals', `${head('TRANSFER-ENCODING: Chunked')}1\r\na\r\n0\r\n\r\n`, { body: 'a' }],
  ['chunk extensions', `${CHUNKED}1;a=b;c="d"\r\nx\r\n0;last\r\n\r\n`, { body: 'x' }],
  [
    'trailers',
    `${CHUNKED}2\r\nab\r\n0\r\nX-Sum: 1\r\nX-More:\r\n\r\n`,
    { body: 'ab', trailers: ['X-Sum', '1', 'X-More', ''] }
  ],
  [
    'a body that ends with the connection',
    `${head('X: y')}some\r\n\r\nbytes`,
    { body: 'some\r\n\r\nbytes', closes: true }
  ],
  ['HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok', { body: 'ok', closes: true }],
  ['a status without a reason', 'HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n', { body: '' }],
  ['a status line that ends with the status', 'HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n', { body: '' }],
  ['204', 'HTTP/1.1 204 No Content\r\n\r\n', { body: '', status: 204 }],
  [
    '304 with the length that the body would have',
    'HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n',
    { body: '', status: 304 }
  ],
  ['an answer to HEAD with a length', head('Content-Length: 9'), { body: '', method: 'HEAD' }],
  ['an answer to HEAD that would be chunked', CHUNKED, { body: '', method: 'HEAD' }],
  ['an answer to HEAD without framing', head('X: y'), { body: '', method: 'HEAD' }],
  [
    '100 though nobody waits for it',
    `HTTP/1.1 100 Continue\r\n\r\n${head('Content-Length: 1')}x`,
    { body: 'x', informations: [[100, []]] }
  ],
  [
    'interim answers',
    `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n${head('Content-Length: 1')}x`,
    {
      body: 'x',
      informations: [
        [103, ['Link', '</a>']],
        [102, []]
      ]
    }
  ],
  [
    'a long head',
    `${head(...Array.from({ length: 300 }, (_, i) => `X-${i}: ${'v'.repeat(20)}`), 'Content-Length: 1')}x`,
    { body: 'x' }
  ]
]

/** Answers in latin1 of which two readers could make two things, or none anything. */
export const badAnswers: readonly [name: string, bytes: string][] = [
  ['no HTTP at all', 'hello there'],
  ['a greeting of another protocol', '220 mail.example ESMTP\r\n'],
  ['HTML without a head', '<html>\r\n\r\n'],
  ['an empty line first', `\r\n${head('Content-Length: 0')}`],
  ['a space first', ` ${head('Content-Length: 0')}`],
  ['another version', 'HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['HTTP/2 in words', 'HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['HTTP/0.9', 'HTTP/0.9 200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['the protocol in small letters', 'http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['ICY', 'ICY 200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['a status of two digits', 'HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n'],
  ['a status of four digits', 'HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n'],
  ['a status of letters', 'HTTP/1.1 abc OK\r\nContent-Length: 0\r\n\r\n'],
  ['a status below 100', 'HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n'],
  ['two spaces before the status', 'HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['a control character in the reason', 'HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n'],
  ['a bare LF behind the status line', 'HTTP/1.1 200 OK\nContent-Length: 0\r\n\r\n'],
  ['bare LFs everywhere', 'HTTP/1.1 200 OK\nContent-Length: 2\n\nok'],
  ['a bare LF behind a field', 'HTTP/1.1 200 OK\r\nX: y\nContent-Length: 0\r\n\r\n'],
  ['a bare CR in a value', head('X: a\rb', 'Content-Length: 0')],
  ['NUL in a value', head('X: a\0b', 'Content-Length: 0')],
  ['NUL in a name', head('X\0: a', 'Content-Length: 0')],
  ['a control character in a value', head('X: a\x1bb', 'Content-Length: 0')],
  ['DEL in a value', head('X: a\x7fb', 'Content-Length: 0')],
  ['a folded line', head('X: a', ' b', 'Content-Length: 0')],
  ['a folded line by tab', head('X: a', '\tb', 'Content-Length: 0')],
  ['a folded first line', head(' X: a', 'Content-Length: 0')],
  ['a space before the colon', head('Content-Length : 0')],
  ['a tab before the colon', head('Content-Length\t: 0')],
  ['a space in a name', head('X Y: a', 'Content-Length: 0')],
  ['a line without a colon', head('X', 'Content-Length: 0')],
  ['a line without a name', head(': a', 'Content-Length: 0')],
  ['letters beyond ASCII in a name', head('X\xe9: a', 'Content-Length: 0')],
  ['a bracket in a name', head('X(: a', 'Content-Length: 0')],
  ['two lengths that differ', `${head('Content-Length: 1', 'Content-Length: 2')}ab`],
  ['one length twice', `${head('Content-Length: 1', 'Content-Length: 1')}a`],
  ['a list of lengths', `${head('Content-Length: 1, 1')}a`],
  ['a negative length', head('Content-Length: -1')],
  ['a length with a sign', `${head('Content-Length: +1')}a`],
  ['a hexadecimal length', `${head('Content-Length: 0x1')}a`],
  ['a length with a fraction', `${head('Content-Length: 1.0')}a`],
  ['an empty length', head('Content-Length:')],
  ['a length beyond what numbers hold', head('Content-Length: 99999999999999999999')],
  ['a length with a space inside', `${head('Content-Length: 1 0')}aaaaaaaaaa`],
  ['a length and chunks', `${head('Content-Length: 6', 'Transfer-Encoding: chunked')}1\r\na\r\n0\r\n\r\n`],
  ['chunks and a length', `${head('Transfer-Encoding: chunked', 'Content-Length: 6')}1\r\na\r\n0\r\n\r\n`],
  ['chunked twice', `${head('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')}0\r\n\r\n`],
  ['chunked, chunked', `${head('Transfer-Encoding: chunked, chunked')}0\r\n\r\n`],
  ['gzip, chunked', `${head('Transfer-Encoding: gzip, chunked')}0\r\n\r\n`],
  ['chunked, identity', `${head('Transfer-Encoding: chunked, identity')}0\r\n\r\n`],
  ['identity', `${head('Transfer-Encoding: identity')}abc`],
  ['xchunked', `${head('Transfer-Encoding: xchunked')}0\r\n\r\n`],
  ['an empty coding', `${head('Transfer-Encoding:')}abc`],
  ['chunked with a parameter', `${head('Transfer-Encoding: chunked;a=b')}0\r\n\r\n`],
  ['chunks over HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['101 that nobody asked for', 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'],
  ['interim answers without end', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(200)],
  ['a head of 100 KB', head(`X: ${'a'.repeat(100_000)}`, 'Content-Length: 0')],
  ['a head of 100 KB without end', `HTTP/1.1 200 OK\r\nX: ${'a'.repeat(100_000)}`],
  ['a head of 2,000 lines', head(...Array.from({ length: 2_000 }, () => 'X: a'), 'Content-Length: 0')],
  ['a chunk size of no digits', `${CHUNKED}\r\n\r\n`],
  ['a chunk size of letters', `${CHUNKED}xyz\r\n`],
  ['a negative chunk size', `${CHUNKED}-1\r\n`],
  ['a chunk size with 0x', `${CHUNKED}0x1\r\na\r\n`],
  ['a space before a chunk size', `${CHUNKED} 1\r\na\r\n`],
  ['a space behind a chunk size', `${CHUNKED}1 \r\na\r\n`],
  ['a chunk size beyond what numbers hold', `${CHUNKED}fffffffffffffffff\r\na`],
  ['a chunk size with a bare LF', `${CHUNKED}1\na\r\n0\r\n\r\n`],
  ['a chunk size with a bare CR', `${CHUNKED}1\ra\r\n0\r\n\r\n`],
  ['a chunk that is longer than its size', `${CHUNKED}1\r\nab\r\n0\r\n\r\n`],
  ['a chunk that ends with a bare LF', `${CHUNKED}1\r\na\n0\r\n\r\n`],
  ['a chunk that ends with CR and something else', `${CHUNKED}1\r\na\rb`],
  ['a bare LF in a chunk extension', `${CHUNKED}1;a\nb\r\na\r\n0\r\n\r\n`],
  ['NUL in a chunk extension', `${CHUNKED}1;a\0b\r\na\r\n0\r\n\r\n`],
  ['a chunk extension without end', `${CHUNKED}1;${'a'.repeat(100_000)}`],
  ['a trailer without a colon', `${CHUNKED}0\r\nX\r\n\r\n`],
  ['a folded trailer', `${CHUNKED}0\r\nX: a\r\n b\r\n\r\n`],
  ['a trailer with a space before the colon', `${CHUNKED}0\r\nX : a\r\n\r\n`],
  ['a trailer with a bare LF', `${CHUNKED}0\r\nX: a\n\r\n\r\n`],
  ['trailers without end', `${CHUNKED}0\r\nX: ${'a'.repeat(100_000)}`]
]
