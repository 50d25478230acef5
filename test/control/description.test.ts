import { Validator } from '@seriousme/openapi-schema-validator'
import t from 'tap'
import { endpoints } from '../../control/endpoints/index.ts'
import { gateway } from '../helpers/gateway.ts'

t.test('the description is valid OpenAPI 3.1 and names every endpoint', async t => {
  const gw = await gateway(t)
  const answer = await gw.api('GET', '/api/openapi.json', undefined, { key: null })
  t.equal(answer.status, 200)
  const { valid, errors } = await new Validator().validate(structuredClone(answer.body))
  t.equal(valid, true, JSON.stringify(errors)?.slice(0, 2000))
  t.equal(answer.body.openapi, '3.1.0')
  const ids = new Set<string>()
  for (const { method, path } of endpoints) {
    const operation = answer.body.paths[path]?.[method.toLowerCase()]
    if (operation === undefined) t.fail(`${method} ${path} is not described`)
    else if (ids.has(operation.operationId)) t.fail(`${operation.operationId} twice`)
    else ids.add(operation.operationId)
  }
  const references = JSON.stringify(answer.body).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)
  for (const [, name] of references)
    if (!Object.hasOwn(answer.body.components.schemas, name!)) t.fail(`${name} is missing`)
})

t.test('the page at /docs and its files come from here alone', async t => {
  const gw = await gateway(t)
  for (const path of ['/docs', '/docs/start.js', '/docs/swagger-ui.css', '/docs/swagger-ui-bundle.js']) {
    const answer = await fetch(gw.managementUrl + path)
    t.equal(answer.status, 200, path)
    const policy = answer.headers.get('content-security-policy')
    t.match(policy, /^default-src 'none'/)
    t.notMatch(policy, /unsafe|\*|http/)
    t.equal(answer.headers.get('x-content-type-options'), 'nosniff')
    t.ok((await answer.text()).length > 50)
  }
  const page = await (await fetch(`${gw.managementUrl}/docs/`)).text()
  t.notMatch(page, /https?:/)
  t.notMatch(page, /<script>|style=/)
  t.equal((await fetch(`${gw.managementUrl}/docs/package.json`)).status, 404)
})
