import { setImmediate as nextTurn } from 'node:timers/promises'
import Type, { type Static } from 'typebox'
import { Invalid } from '../../config/validate.ts'
import { type Api, EXTENSION } from '../../gateway/api.ts'
import { namedId, readApi, withId } from '../../gateway/documents/readApi.ts'
import { placeOf } from '../../gateway/listenPaths.ts'
import { documentOf, type Noun, ownDocument, templateData, UNREADABLE } from '../apiDocuments.ts'
import { changeApi, type Saved, saveApi } from '../apis.ts'
import { type Caller, owns } from '../caller.ts'
import { Answer, type Call, type Door, type Endpoint, endpoint, etag, Refused, toldFaults } from '../endpoint.ts'
import { documentTypes } from '../forms.ts'
import { newId } from '../ids.ts'
import { type Configured, configure, merge } from '../import/configure.ts'
import type { OPTION_NAMES } from '../import/options.ts'
import { refusals, type Told } from '../import/refusals.ts'
import type { Entry } from '../import/report.ts'
import { readSource, type Source, type Template } from '../import/source.ts'
import type { ControlTools } from '../tools.ts'

/** APIs made of OpenAPI descriptions (semantics §2.5, §2.6, §3.9; outside.md §5). */

const strict = { additionalProperties: false } as const
const Text = (description: string) => Type.Optional(Type.String({ maxLength: 2048, description }))
const Flag = (description: string) => Text(`${description}; 1, t, true, 0, f, false. Only together with listenPath`)

const shapes: Record<(typeof OPTION_NAMES)[number], ReturnType<typeof Text>> = {
  listenPath: Text('Listen path of the API; default: /'),
  upstreamURL: Text('Upstream of the API; default: the first server'),
  customDomain: Text('Host name of the API'),
  apiID: Text('Id of the API; default: a new one'),
  authentication: Flag(
    'Credentials are asked for, as the top-level security says; compliant: also securityProcessingMode'
  ),
  allowList: Flag('Only what the description holds is let through'),
  validateRequest: Flag('Parameters and JSON bodies are checked'),
  mockResponse: Flag('Answers are made from examples and schemas'),
  securityProcessingMode: Text(
    'legacy: the first alternative of security counts; compliant: all do. Only together with listenPath'
  )
}
const Options = Type.Object(shapes, strict)
const CreateOptions = Type.Object(
  {
    ...shapes,
    templateID: Text('An asset of kind oas-template, by custom or database id: laid under the description')
  },
  strict
)

const NoParams = Type.Object({}, strict)
const ApiId = Type.Object({ apiID: Type.String({ minLength: 1, maxLength: 256 }) }, strict)
const Description = Type.Unknown({
  description:
    'An OpenAPI description (3.0.x, 3.1.x) in JSON or YAML; `{"url":"…"}`; or several files, as a form or a zip file'
})
const ReportList = Type.Array(
  Type.Object(
    {
      pointer: Type.String({ description: 'JSON pointer' }),
      file: Type.Optional(Type.String({ description: 'Where several files were sent' })),
      line: Type.Optional(Type.Integer({ minimum: 1, description: 'Of YAML' })),
      keyword: Type.String(),
      outcome: Type.Enum(['ignored', 'defaulted', 'warned', 'refused']),
      message: Type.String()
    },
    strict
  ),
  { description: 'What has no effect, was filled in, opens or leaves undone something, or cannot be' }
)
const Done = Type.Object(
  { Status: Type.Literal('OK'), Message: Type.String(), Meta: Type.String(), ID: Type.String(), report: ReportList },
  strict
)
const takes = [...documentTypes, 'multipart/form-data', 'application/zip']
const common = { bodyForm: 'bytes', body: Description, takes } as const

type Asked = Pick<Call<unknown, unknown, Buffer>, 'body' | 'contentHeader' | 'caller' | 'matched' | 'changed'>
/** What the surface says where it cannot read the body. */
const malformedAt = { management: UNREADABLE, gateway: 'request malformed' } as const
/** Streaming APIs are not made here. */
const OAS: Noun = { type: 'oas', path: '/api/apis/oas', noun: 'an API', takes: [] }
type ImportDoor = keyof typeof malformedAt

async function read(call: Asked, door: ImportDoor, template: Template, tools: ControlTools): Promise<Source> {
  const { management } = tools.settings
  try {
    return await readSource(
      { body: call.body, contentType: call.contentHeader },
      {
        mostBytes: management.max_body_size,
        privateNetworks: management.import_private_networks,
        clock: tools.clock
      },
      template
    )
  } catch (cause) {
    if (!(cause instanceof Invalid)) throw cause
    throw new Refused(400, malformedAt[door], { more: { faults: toldFaults(cause.faults) } })
  }
}

async function made(
  call: Asked,
  query: Static<typeof CreateOptions>,
  door: ImportDoor,
  dbId: string,
  tools: ControlTools
): Promise<Configured & { readonly source: Source }> {
  const { templateID, ...options } = query
  const template = templateID ? await templateData(templateID, call.caller, tools) : null
  const source = await read(call, door, template, tools)
  await nextTurn()
  return { ...configure(source, options, { template, dbId }), source }
}

/** What stands behind the answer to an import: known at the latest when saving is done or refused. */
interface Made {
  readonly source: Source
  report: readonly Entry[]
}

/** What is answered: with the report, whether it is done or refused. */
async function answered(Message: string, save: () => Promise<Saved>, made: Made): Promise<Answer> {
  try {
    const { api, rev } = await save()
    return new Answer(200, { Status: 'OK', Message, Meta: api.dbId, ID: api.id, report: made.report }, etag(rev))
  } catch (cause) {
    if (!(cause instanceof Refused) || !Array.isArray(cause.more.faults)) throw cause
    const refused = refusals(cause.more.faults as Told[], made.source)
    throw new Refused(cause.status, cause.message, { more: { ...cause.more, report: [...refused, ...made.report] } })
  }
}

function importAt(path: string, door: Door & ImportDoor): Endpoint {
  return endpoint({
    ...common,
    method: 'POST',
    path,
    door,
    summary: 'Imports an OpenAPI description as a new API',
    params: NoParams,
    query: CreateOptions,
    malformed: malformedAt[door],
    answer: Done,
    async handle(call, tools) {
      const asked = { ...call, body: call.body as Buffer }
      const { document, ...rest } = await made(asked, call.query, door, newId(tools), tools)
      const save = () => saveApi(documentOf(document, OAS), null, 'imported', asked, tools)
      return answered('API created', save, rest)
    }
  })
}

function patchAt(path: string, door: Door & ImportDoor, unknown: string): Endpoint {
  return endpoint({
    ...common,
    method: 'PATCH',
    path,
    door,
    summary: 'Replaces the OpenAPI description of an API; its extension stays',
    params: ApiId,
    query: Options,
    malformed: malformedAt[door],
    answer: Done,
    async handle(call, tools) {
      const asked = { ...call, body: call.body as Buffer }
      const { id } = ownDocument(call.params.apiID, OAS, call, tools, unknown)
      const source = await read(asked, door, null, tools)
      const made: Made = { source, report: [] }
      const make = (present: Api) => {
        const { document, report } = merge(present.document, source, call.query)
        made.report = report
        return documentOf(document, OAS)
      }
      return answered('API updated', () => changeApi(id, make, 'imported again', asked, tools), made)
    }
  })
}

export const importApi = importAt('/api/apis/oas/import', 'management')
export const importSvcApi = importAt('/svc/apis/oas/import', 'gateway')
export const patchApi = patchAt('/api/apis/oas/{apiID}', 'management', 'API definition does not exist')
export const patchSvcApi = patchAt('/svc/apis/oas/{apiID}', 'gateway', 'API not found')

export const dryRun = endpoint({
  ...common,
  method: 'POST',
  path: '/api/apis/oas/dry-run',
  door: 'management',
  intent: 'read',
  summary: 'What an import would make, without making it',
  params: NoParams,
  query: CreateOptions,
  malformed: malformedAt.management,
  answer: Type.Object(
    {
      oas: Type.Unknown({ description: `Without ${EXTENSION}` }),
      svc_oas: Type.Unknown({ description: `With ${EXTENSION}` }),
      report: ReportList
    },
    strict
  ),
  async handle(call, tools) {
    const asked = { ...call, body: call.body as Buffer }
    const { document, report, source } = await made(asked, call.query, 'management', '', tools)
    const { [EXTENSION]: _, ...oas } = document
    return { oas, svc_oas: document, report: [...refusedOf(document, source, call.caller, tools), ...report] }
  }
})

/** What saving would refuse. */
function refusedOf(document: Record<string, unknown>, source: Source, caller: Caller, tools: ControlTools): Entry[] {
  try {
    documentOf(document, OAS)
    const matching = tools.settings.gateway.endpoint_matching
    const api = readApi(withId(document, 'new'), { source: 'store', matching })
    return conflicts(api, namedId(document), caller, tools)
  } catch (cause) {
    if (cause instanceof Invalid) return refusals(toldFaults(cause.faults), source)
    if (!(cause instanceof Refused)) throw cause
    return refusals([{ pointer: '', message: cause.message }], source)
  }
}

/** Id and listen path that another API has: saving would answer 409. */
function conflicts(api: Api, id: string | null, caller: Caller, { apis }: ControlTools): Entry[] {
  const found: Entry[] = []
  const add = (pointer: string, keyword: string, message: string) =>
    void found.push({ pointer: `/${EXTENSION}${pointer}`, keyword, outcome: 'refused', message })
  if (id !== null && apis.get(id) !== null) add('/info/id', 'id', 'Found API with the same ID')
  const place = placeOf(api)
  const holder = place === null ? undefined : apis.all().find(other => placeOf(other) === place)
  if (holder === undefined) return found
  const whose = owns(caller, holder.orgId) ? `API ${holder.id} (${holder.name})` : 'an API of another organisation'
  const message = `Found API with same url. The listen path ${api.listenPath}/ is taken by ${whose}`
  add('/server/listenPath/value', 'listenPath', message)
  return found
}

export const imports: readonly Endpoint[] = [importApi, dryRun, patchApi, importSvcApi, patchSvcApi]
