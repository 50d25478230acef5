import Type, { type Static } from 'typebox'
import type { Fault } from '../validate.ts'

/** Seconds, counts and the like: int64 in the specification, bounded to what a JSON number carries exactly. */
export const Int64 = (description: string) =>
  Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER, description })

const lifetime = {
  type: ['integer', 'string'],
  minimum: Number.MIN_SAFE_INTEGER,
  maximum: Number.MAX_SAFE_INTEGER
}

/**
 * How long something lives: seconds, or a readable text such as `5h,34m,30s` (`lifetimeSeconds`), which the check turns
 * into seconds where it stands. So whoever comes behind the check sees seconds alone.
 */
export const Lifetime = (description: string) =>
  Type.Unsafe<number>({ ...lifetime, lifetime: 'seconds', description: `${description}: seconds or e.g. 5h,34m,30s` })

/** A time in Unix seconds, or how long from now as a readable text: whoever knows the time makes a time of it. */
export const TimeOrLifetime = (description: string) =>
  Type.Unsafe<number | string>({
    ...lifetime,
    lifetime: 'text',
    description: `${description}, or e.g. 5h,34m,30s from now`
  })

/** At least 1 where smoothing is enabled; clients that write every member send 0 where it is not. */
const OneOrMore = (description: string) => Type.Integer({ minimum: 0, description: `${description}; at least 1` })

/** Specification, Smoothing object. What ties it to its rate is checked by `limitFaults`. */
export const Smoothing = Type.Object(
  {
    enabled: Type.Optional(Type.Boolean()),
    threshold: Type.Optional(OneOrMore('Initial allowance: requests a `per` interval')),
    trigger: Type.Optional(
      Type.Number({ minimum: 0, multipleOf: 0.01, description: 'Fraction of the step at which the allowance moves' })
    ),
    step: Type.Optional(OneOrMore('By how much the allowance moves')),
    delay: Type.Optional(OneOrMore('Seconds between two smoothing events'))
  },
  { additionalProperties: false }
)
export type Smoothing = Static<typeof Smoothing>

/** The members that policies, keys and access rights share. All times are seconds. */
export const limitMembers = {
  rate: Type.Optional(Type.Number({ description: 'Requests a window of `per` seconds; 0 or less: unlimited' })),
  per: Type.Optional(Type.Number({ minimum: -1, description: 'Rate window, seconds; 0 or -1: the rate says nothing' })),
  smoothing: Type.Optional(Type.Union([Smoothing, Type.Null()])),
  throttle_interval: Type.Optional(Type.Number({ description: 'Seconds between two tries of a held request' })),
  throttle_retry_limit: Type.Optional(
    Type.Integer({ description: 'Tries of a held request; 0 or less: no throttling' })
  ),
  max_query_depth: Type.Optional(Type.Integer()),
  quota_max: Type.Optional(Int64('Requests a renewal period; 0 or less: unlimited')),
  quota_renews: Type.Optional(Int64('Unix seconds at which the quota renews')),
  quota_remaining: Type.Optional(Int64('Computed live; what is written here is not read')),
  quota_renewal_rate: Type.Optional(Int64('Seconds of a renewal period; 0 or less: never renews'))
}

export const ApiLimit = Type.Object(limitMembers, { additionalProperties: false })
export type ApiLimit = Static<typeof ApiLimit>

/** How limits that lie in Redis are counted. */
export const rateLimitModes = ['exact', 'lease'] as const
export type RateLimitMode = (typeof rateLimitModes)[number]
export const rateLimitModeText =
  'Limits in Redis: `exact` asks it about each request, `lease` takes several requests at once and spends them in the process (docs/limits.md tells the bound)'

/** What becomes of a limited request while Redis does not answer. */
export const countersFailures = ['allow', 'refuse', 'local'] as const
export type CountersFailure = (typeof countersFailures)[number]
export const countersFailureText =
  'While Redis does not answer: `allow` lets requests pass, `refuse` answers 503, `local` counts in memory with the share of this process'

/** Rules between members: smoothing that is on is whole, and begins below its rate. `path`: where the limit stands. */
export function limitFaults({ rate = 0, smoothing }: Pick<ApiLimit, 'rate' | 'smoothing'>, path: string): Fault[] {
  if (smoothing?.enabled !== true) return []
  const faults: Fault[] = []
  for (const member of ['threshold', 'trigger', 'step', 'delay'] as const) {
    if (smoothing[member] === undefined)
      faults.push({ path: `${path}/smoothing/${member}`, message: 'is required when smoothing is enabled' })
    else if (member !== 'trigger' && smoothing[member] < 1)
      faults.push({ path: `${path}/smoothing/${member}`, message: 'must be >= 1' })
  }
  if (rate > 0 && smoothing.threshold !== undefined && smoothing.threshold >= rate)
    faults.push({ path: `${path}/smoothing/threshold`, message: 'must be below the rate' })
  return faults
}

/** An organisation, API, policy or custom key id; longer or stranger ones are refused at the door. */
export const Id = Type.String({ minLength: 1, maxLength: 256 })

export const AccessRight = Type.Object(
  {
    api_id: Type.Optional(Type.String({ maxLength: 256 })),
    api_name: Type.Optional(Type.String({ maxLength: 1024 })),
    versions: Type.Optional(Type.Union([Type.Array(Type.String()), Type.Null()])),
    allowed_urls: Type.Optional(
      Type.Union([
        Type.Array(
          Type.Object(
            {
              url: Type.String({ maxLength: 2048 }),
              methods: Type.Union([Type.Array(Type.String(), { maxItems: 16 }), Type.Null()])
            },
            { additionalProperties: false }
          ),
          { maxItems: 200 }
        ),
        Type.Null()
      ])
    ),
    disable_introspection: Type.Optional(Type.Boolean()),
    limit: Type.Optional(Type.Union([ApiLimit, Type.Null()])),
    allowance_scope: Type.Optional(
      Type.String({ maxLength: 256, description: 'Counter scope; set when policies are applied' })
    ),
    endpoints: Type.Optional(
      Type.Union([
        Type.Array(
          Type.Object(
            {
              path: Type.String({ maxLength: 2048 }),
              methods: Type.Array(
                Type.Object(
                  {
                    name: Type.String(),
                    limit: Type.Object(
                      {
                        rate: Type.Number(),
                        per: Type.Number({ minimum: 0 }),
                        smoothing: Type.Optional(Type.Union([Smoothing, Type.Null()]))
                      },
                      { additionalProperties: false }
                    )
                  },
                  { additionalProperties: false }
                ),
                { maxItems: 16 }
              )
            },
            { additionalProperties: false }
          ),
          { maxItems: 200 }
        ),
        Type.Null()
      ])
    )
  },
  { additionalProperties: false }
)
export type AccessRight = Static<typeof AccessRight>

export const AccessRights = Type.Union([
  Type.Record(Type.String({ maxLength: 256 }), AccessRight, { maxProperties: 1000 }),
  Type.Null()
])
