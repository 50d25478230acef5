import t from 'tap'
import { usesOf } from '../../control/certificates/certificates.ts'
import { typeOf, usageOf } from '../../control/certificates/uses.ts'
import { control } from '../../control/server.ts'
import { certificate } from '../helpers/certificates.ts'
import { api, gateway } from '../helpers/gateway.ts'

void control
