import type { HttpServerInput, HttpServerOutput } from '../config/shape/stream.ts'
import type { Connector } from './connector.ts'
import { deliveryOptions, producerOptions } from './options.ts'
import type { Endpoint, StreamPlan } from './plan.ts'

/** The `http_server`s of a connector, in the order of the document. */
export function hostedIn(connector: Connector): readonly Connector[] {
  return connector.kind === 'http_server' ? [connector] : connector.children.flatMap(hostedIn)
}

/** All paths of a stream. */
export function endpointsOf({ name: stream, input, output }: StreamPlan): readonly Endpoint[] {
  const producers = hostedIn(input).flatMap(({ options }, of): Endpoint[] => {
    const { path, wsPath, verbs } = producerOptions(options as HttpServerInput)
    return [
      { kind: 'produce', stream, verbs, path, of },
      { kind: 'produce_websocket', stream, verbs: ['GET'], path: wsPath, of }
    ]
  })
  const deliveries = hostedIn(output).flatMap(({ options }, of): Endpoint[] => {
    const { path, streamPath, wsPath, verbs, ack } = deliveryOptions(options as HttpServerOutput)
    return [
      { kind: 'poll', stream, verbs, path, of },
      // Its head alone shows whether it is there; a poll's would take a message.
      { kind: 'stream', stream, verbs: verbs.includes('GET') ? [...verbs, 'HEAD'] : verbs, path: streamPath, of },
      {
        kind: 'acknowledge',
        stream,
        verbs: ['POST'],
        path: ack === 'client' && streamPath !== '' ? `${streamPath}/ack` : '',
        of
      },
      { kind: 'websocket', stream, verbs: ['GET'], path: wsPath, of }
    ]
  })
  return [...producers, ...deliveries].filter(({ path }) => path !== '')
}
