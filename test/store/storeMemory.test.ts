import t from 'tap'
import { storeMemory } from '../../gateway/store/storeMemory.ts'
import { storeContract } from '../contract/store.ts'

storeContract(t, async () => storeMemory())
