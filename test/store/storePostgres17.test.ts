import { contractOn } from './postgres.ts'

await contractOn(17)
