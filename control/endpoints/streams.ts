import Type from 'typebox'
import { isObject } from '../../config/report.ts'
import {
  ApiDocument,
  ApiId,
  documentEndpoints,
  documentOf,
  NoQuery,
  type Noun,
  ownDocument,
  UNREADABLE,
  Written,
  written
} from '../apiDocuments.ts'
import { changeApi, saveApi } from '../apis.ts'
import { type Endpoint, endpoint, Refused } from '../endpoint.ts'
import { documentTypes } from '../forms.ts'
import { mergePatch } from '../mergePatch.ts'

/** Streaming APIs: OpenAPI documents with `x-svc-streaming` (specification, Stream APIs; semantics §1.16). */

const strict = { additionalProperties: false } as const
const MEDIA_TYPE = 'application/vnd.svc.streams.oas'
const noun: Noun = { type: 'streams', path: '/api/apis/streams', noun: 'a streaming API', takes: [MEDIA_TYPE] }
const takes = [MEDIA_TYPE, ...documentTypes]

export const createStream = endpoint({
  method: 'POST',
  path: noun.path,
  door: 'management',
  summary: 'Creates a streaming API; without an id it gets one',
  params: Type.Object({}, strict),
  query: NoQuery,
  bodyForm: 'document',
  takes,
  body: ApiDocument,
  malformed: UNREADABLE,
  answer: Written,
  async handle(call, tools) {
    return written('API created', await saveApi(documentOf(call.body, noun), null, 'created', call, tools))
  }
})

export const patchStream = endpoint({
  method: 'PATCH',
  path: `${noun.path}/{apiID}`,
  door: 'management',
  summary: 'Changes the document of a streaming API (JSON Merge Patch)',
  params: ApiId,
  query: NoQuery,
  bodyForm: 'document',
  takes: ['application/merge-patch+json', ...takes],
  body: Type.Unknown({ description: 'What changes; null takes a member out' }),
  malformed: UNREADABLE,
  answer: Written,
  async handle(call, tools) {
    const { body } = call
    if (!isObject(body)) throw new Refused(400, UNREADABLE)
    const { id } = ownDocument(call.params.apiID, noun, call, tools, 'API definition does not exist')
    const patched = (document: unknown) => documentOf(mergePatch(document, body), noun)
    return written('API updated.', await changeApi(id, ({ document }) => patched(document), 'patched', call, tools))
  }
})

export const streams: readonly Endpoint[] = [createStream, ...documentEndpoints(noun), patchStream]
