import type { HttpServerInput, HttpServerOutput } from '../../config/shape/stream.ts'
import { pointer } from '../../config/validate.ts'
import type { Fault } from '../connector.ts'
import { deliveryOptions, producerOptions } from '../options.ts'
import type { StreamPlan } from '../plan.ts'
import { type Placed, placed } from './placed.ts'

/** `$svc_context.path_params_NAME` in a text, and what a filter's condition asks with `caller`. */
const PARAMETER = /(?:\$|\bcaller\(\s*["'])svc_context\.path_params_(\w+(?:[.-]\w+)*)/g

/**
 * Tells variables of placeholders that no path has: they would always be empty. An `http_server` is asked by its own
 * paths, and so is an input that it feeds from; other outputs get requests of the inputs that are `http_server`s.
 */
export function checkPlaceholders({ input, output }: StreamPlan, fault: Fault): void {
  const inputs = placed(input, 'input')
  const outputs = placed(output, 'output')
  const posted = inputs.filter(isHosted).map(({ options }) => ofProducer(options))
  const listened = outputs.filter(isHosted).map(({ options }) => ofListeners(options))
  for (const one of inputs) {
    const paths = isHosted(one) ? [ofProducer(one.options)] : one.kind === 'kafka' ? listened : []
    if (paths.length > 0) checkTexts(one.place, one.options, new Set(paths.flat()), fault)
  }
  for (const one of outputs) {
    const paths = isHosted(one) ? [ofListeners(one.options)] : posted
    if (paths.length > 0) checkTexts(one.place, one.options, new Set(paths.flat()), fault)
  }
}

function isHosted({ kind }: Placed): boolean {
  return kind === 'http_server'
}

function ofProducer(options: unknown): readonly string[] {
  const { path, wsPath } = producerOptions(options as HttpServerInput)
  return namesIn([path, wsPath])
}

function ofListeners(options: unknown): readonly string[] {
  const { path, streamPath, wsPath } = deliveryOptions(options as HttpServerOutput)
  return namesIn([path, streamPath, wsPath])
}

function namesIn(paths: readonly string[]): readonly string[] {
  return paths.flatMap(path => [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!))
}

function checkTexts(place: string, value: unknown, names: ReadonlySet<string>, fault: Fault): void {
  if (typeof value === 'string') {
    for (const [, name] of value.matchAll(PARAMETER))
      if (!names.has(name!)) fault(place, `asks for the placeholder {${name}}, which no path has`)
  } else if (typeof value === 'object' && value !== null)
    for (const [member, inner] of Object.entries(value)) checkTexts(`${place}/${pointer(member)}`, inner, names, fault)
}
