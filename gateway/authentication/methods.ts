import type { Api, Scheme } from '../api.ts'
import type { Tools } from '../steps/step.ts'
import { basic } from './basic.ts'
import { certificate } from './certificate.ts'
import { introspection } from './introspection.ts'
import { jwt } from './jwt/jwt.ts'
import type { Method } from './method.ts'
import { hmac } from './signatures/hmac.ts'
import { messageSignature } from './signatures/messageSignature.ts'
import { token } from './token.ts'

/** The method of a scheme. */
export function method(scheme: Scheme, api: Api, tools: Tools): Method {
  switch (scheme.kind) {
    case 'token':
      return token(scheme, api, tools)
    case 'basic':
      return basic(scheme, api, tools)
    case 'jwt':
      return jwt(scheme, api, tools)
    case 'introspection':
      return introspection(scheme, api, tools)
    case 'hmac':
      return hmac(scheme, api, tools)
    case 'message-signature':
      return messageSignature(scheme, api, tools)
    case 'certificate':
      return certificate(scheme, api, tools)
  }
}
