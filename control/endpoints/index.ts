import type { Endpoint } from '../endpoint.ts'
import { admin } from './admin.ts'
import { apiKeyLists } from './apiKeyLists.ts'
import { apiKeys } from './apiKeys.ts'
import { apis } from './apis.ts'
import { assets } from './assets.ts'
import { audit } from './audit.ts'
import { certificates } from './certificates.ts'
import { description } from './description.ts'
import { groups } from './groups.ts'
import { hooks } from './hooks.ts'
import { imports } from './import.ts'
import { jwks } from './jwks.ts'
import { keys } from './keys.ts'
import { notifications } from './notifications.ts'
import { oas } from './oas.ts'
import { organisations } from './organisations.ts'
import { policies } from './policies.ts'
import { portal } from './portal.ts'
import { portalPolicies } from './portalPolicies.ts'
import { portalUsers } from './portalUsers.ts'
import { schema } from './schema.ts'
import { streams } from './streams.ts'
import { svcCertificates } from './svcCertificates.ts'
import { svcStreams } from './svcStreams.ts'
import { userActions } from './userActions.ts'
import { users } from './users.ts'

/** Every operation of the management interface. */
export const endpoints: readonly Endpoint[] = [
  ...keys,
  ...apiKeys,
  ...apiKeyLists,
  ...policies,
  ...portalPolicies,
  ...assets,
  ...hooks,
  ...apis,
  ...oas,
  ...streams,
  ...audit,
  ...certificates,
  ...notifications,
  ...svcCertificates,
  ...svcStreams,
  ...jwks,
  ...portal,
  ...portalUsers,
  ...users,
  ...userActions,
  ...groups,
  ...organisations,
  ...admin,
  ...schema,
  ...imports,
  ...description(() => endpoints)
]
