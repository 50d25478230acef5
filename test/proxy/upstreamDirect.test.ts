import t from 'tap'
import { upstreamDirect } from '../../gateway/proxy/upstreamDirect.ts'
import { upstreamContract } from '../contract/upstream.ts'

upstreamContract(t, options => upstreamDirect(options), {
  lenient: new Set(),
  knowsReuse: true,
  sendsTrailers: true,
  takesEarlyAnswers: true,
  takes100: true,
  trims: true
})
