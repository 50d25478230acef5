import t from 'tap'
import { changesLocal } from '../../gateway/changes/changesLocal.ts'
import { changesContract } from '../contract/changes.ts'

changesContract(t, async () => changesLocal())
