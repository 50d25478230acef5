import { accessRights } from './accessRights.ts'
import { allowedUrls } from './allowedUrls.ts'
import { authentication } from './authentication.ts'
import { certificateBinding } from './certificateBinding.ts'
import { clientCertificates } from './clientCertificates.ts'
import { cors } from './cors.ts'
import { ipAccess } from './ipAccess.ts'
import { keyAlive } from './keyAlive.ts'
import { limits } from './limits.ts'
import { mockResponse } from './mockResponse.ts'
import { operation } from './operation.ts'
import { proxy } from './proxy.ts'
import { resourceMetadata } from './resourceMetadata.ts'
import { sizeLimit } from './sizeLimit.ts'
import type { Step } from './step.ts'
import { stream } from './stream.ts'
import { transformResponseHeaders } from './transformHeaders.ts'
import { validateRequest } from './validateRequest.ts'

/** The only place where order is decided. */
export const order: readonly Step[] = [
  // Before anyone is known. CORS first: its answers stand on every refusal, and a preflight carries no credential.
  cors,
  // Answers for itself, whatever rules say about operations.
  resourceMetadata,
  operation,
  ipAccess,
  clientCertificates,
  sizeLimit,
  // Who, and may they.
  authentication,
  certificateBinding,
  keyAlive,
  accessRights,
  allowedUrls,
  // Key rate, quota, API rate: one charge. `svc/rate-limits/` is answered here, uncharged.
  limits,
  transformResponseHeaders,
  // Streaming APIs end here.
  stream,
  // Does it fit the document.
  validateRequest,
  // Who answers.
  mockResponse,
  proxy
]
