import t from 'tap'
import { upstreamUndici } from '../../gateway/proxy/upstreamUndici.ts'
import { upstreamContract } from '../contract/upstream.ts'

upstreamContract(t, options => upstreamUndici(options), {
  lenient: new Set([
    'an empty line first',
    'HTTP/0.9',
    'a status below 100',
    'a control character in the reason',
    'chunked twice',
    'chunked, chunked',
    'gzip, chunked',
    'chunked, identity',
    'identity',
    'xchunked',
    'an empty coding',
    'chunked with a parameter',
    'chunks over HTTP/1.0',
    '101 that nobody asked for',
    'interim answers without end',
    'a head of 2,000 lines',
    'a chunk extension without end'
  ]),
  knowsReuse: false,
  sendsTrailers: false,
  takesEarlyAnswers: false,
  readsUntilClose: false,
  takes100: false,
  trims: false
})
