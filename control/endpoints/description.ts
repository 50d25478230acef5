import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import Type from 'typebox'
import { version } from '../../config/version.ts'
import { describe } from '../describe.ts'
import { Answer, type Endpoint, endpoint } from '../endpoint.ts'

/** The interface's own description, and a page that shows it. Nobody is asked for a credential: there is no secret in it. */

const nothing = Type.Object({}, { additionalProperties: false })
const common = {
  method: 'GET',
  door: 'open',
  params: nothing,
  query: nothing,
  bodyForm: 'none',
  body: Type.Unknown(),
  malformed: ''
} as const

// No script, style or image but ours; nobody may frame the page, and it sends no form.
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'"
].join('; ')
const SAFE = {
  'Content-Security-Policy': POLICY,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer'
}

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Management interface</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" href="/docs/favicon-32x32.png">
</head>
<body>
<div id="page"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`
const START = `SwaggerUIBundle({ url: '/api/openapi.json', dom_id: '#page', deepLinking: true, validatorUrl: null })\n`

const TYPES: Record<string, string> = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
  'favicon-32x32.png': 'image/png'
}

function asset(name: string): Buffer {
  const folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'))
  return readFileSync(join(folder, name))
}

/** The table itself must be known here, so it is asked for late. */
export function description(table: () => readonly Endpoint[]): readonly Endpoint[] {
  const files = new Map<string, Buffer>()
  let made: { readonly gateway: string; readonly bytes: Buffer } | null = null

  return [
    endpoint({
      ...common,
      path: '/api/openapi.json',
      summary: 'Describes this interface (OpenAPI 3.1)',
      answer: Type.Object({ openapi: Type.String() }),
      handle(_call, { gatewayUrl }) {
        const gateway = gatewayUrl()
        if (made?.gateway !== gateway)
          made = {
            gateway,
            bytes: Buffer.from(JSON.stringify(describe(table(), { version, management: '/', gateway })))
          }
        return new Answer(200, made.bytes)
      }
    }),

    endpoint({
      ...common,
      path: '/docs',
      summary: 'A page that shows the description',
      gives: ['text/html'],
      answer: Type.Unknown(),
      handle: () => new Answer(200, PAGE, { ...SAFE, 'Content-Type': 'text/html; charset=utf-8' })
    }),

    endpoint({
      ...common,
      path: '/docs/start.js',
      summary: 'Starts that page',
      gives: ['text/javascript'],
      answer: Type.Unknown(),
      handle: () => new Answer(200, START, { ...SAFE, 'Content-Type': 'text/javascript; charset=utf-8' })
    }),

    ...Object.entries(TYPES).map(([name, type]) =>
      endpoint({
        ...common,
        path: `/docs/${name}`,
        summary: 'A file of that page',
        gives: [type.split(';', 1)[0]!],
        answer: Type.Unknown(),
        handle() {
          const bytes = files.get(name) ?? asset(name)
          files.set(name, bytes)
          return new Answer(200, bytes, { ...SAFE, 'Content-Type': type, 'Cache-Control': 'max-age=3600' })
        }
      })
    )
  ]
}
