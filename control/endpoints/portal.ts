import Type from 'typebox'
import {
  NewPortalTeam,
  PortalOrganisation,
  PortalOrganisationChange,
  PortalOrganisationName,
  PortalTeam,
  PortalTeamChange
} from '../../config/shape/portal.ts'
import { orgOf } from '../caller.ts'
import { Answer, type Endpoint, endpoint, etag } from '../endpoint.ts'
import { PortalPaging, portalPage } from '../portal/page.ts'
import {
  changeTeam,
  createOrganisation,
  createTeam,
  numberOf,
  organisationOf,
  removeOrganisation,
  removeTeam,
  renameOrganisation,
  shown,
  shownTeam,
  teamOf
} from '../portal/portal.ts'
import { changing, type OrganisationRecord, Unit } from '../portal/unit.ts'

/** Organisations of the portal and their teams (specification, Portal; semantics §9). */

const strict = { additionalProperties: false } as const
const NoParams = Type.Object({}, strict)
const NoQuery = Type.Object({}, strict)
const organisation_id = Type.String({ description: 'A whole number' })
const OrganisationId = Type.Object({ organisation_id }, strict)
const TeamId = Type.Object({ organisation_id, team_id: Type.String({ description: 'A whole number' }) }, strict)
const Done = Type.Object({ status: Type.Literal('ok') }, strict)
const malformed = 'Request body malformed'
const none = { bodyForm: 'none', body: Type.Unknown(), malformed } as const
const json = { bodyForm: 'json', malformed } as const
const ORGANISATIONS = '/portal-api/organisations'
const ORGANISATION = `${ORGANISATIONS}/{organisation_id}`

const list = endpoint({
  method: 'GET',
  path: ORGANISATIONS,
  door: 'portal',
  summary: 'Organisations of the portal, oldest first',
  params: NoParams,
  query: PortalPaging,
  ...none,
  answer: Type.Array(PortalOrganisation),
  async handle({ query, caller }, tools) {
    const { org, unwritten } = await Unit.begin(orgOf(caller, undefined), tools)
    // Each has a view of its own: one for all would hold every member of a long list.
    const show = async (body: OrganisationRecord) => shown(await Unit.begin(org, tools), body)
    return portalPage<OrganisationRecord>('portal_organisation', org, query, tools, show, unwritten)
  }
})

const create = endpoint({
  method: 'POST',
  path: ORGANISATIONS,
  door: 'portal',
  summary: 'Creates an organisation with a default team',
  params: NoParams,
  query: NoQuery,
  ...json,
  body: PortalOrganisationName,
  answer: PortalOrganisation,
  handle: ({ body, caller }, tools) =>
    changing(orgOf(caller, undefined), tools, async unit => told(unit, await createOrganisation(unit, body.Name)))
})

const read = endpoint({
  method: 'GET',
  path: ORGANISATION,
  door: 'portal',
  summary: 'One organisation with its teams and members',
  params: OrganisationId,
  query: NoQuery,
  ...none,
  answer: PortalOrganisation,
  async handle({ params, caller }, tools) {
    const id = numberOf(params.organisation_id, 'organisation')
    const unit = await Unit.begin(orgOf(caller, undefined), tools)
    return told(unit, await organisationOf(unit, id))
  }
})

const update = endpoint({
  method: 'PUT',
  path: ORGANISATION,
  door: 'portal',
  summary: 'Renames an organisation',
  params: OrganisationId,
  query: NoQuery,
  ...json,
  body: PortalOrganisationChange,
  answer: PortalOrganisation,
  handle({ params, body, caller, matched, changed }, tools) {
    const id = numberOf(params.organisation_id, 'organisation')
    return changing(orgOf(caller, undefined), tools, async unit => {
      const before = await organisationOf(unit, id)
      matched(unit.revision('portal_organisation', id))
      const after = renameOrganisation(unit, before, body.Name)
      changed(await shown(unit, before), await shown(unit, after))
      return told(unit, after)
    })
  }
})

const remove = endpoint({
  method: 'DELETE',
  path: ORGANISATION,
  door: 'portal',
  summary: 'Deletes an organisation; its members move to the default organisation',
  params: OrganisationId,
  query: NoQuery,
  ...none,
  answer: Done,
  handle({ params, caller, matched }, tools) {
    const id = numberOf(params.organisation_id, 'organisation')
    return changing(orgOf(caller, undefined), tools, async unit => {
      const record = await organisationOf(unit, id)
      matched(unit.revision('portal_organisation', id))
      await removeOrganisation(unit, record)
      return { status: 'ok' }
    })
  }
})

const listTeams = endpoint({
  method: 'GET',
  path: `${ORGANISATION}/teams`,
  door: 'portal',
  summary: 'Teams of an organisation, the default one first',
  params: OrganisationId,
  query: NoQuery,
  ...none,
  answer: Type.Array(PortalTeam),
  async handle({ params, caller }, tools) {
    const id = numberOf(params.organisation_id, 'organisation')
    const record = await organisationOf(await Unit.begin(orgOf(caller, undefined), tools), id)
    return record.Teams.map(team => shownTeam(record, team))
  }
})

const addTeam = endpoint({
  method: 'POST',
  path: `${ORGANISATION}/teams`,
  door: 'portal',
  summary: 'Creates a team',
  params: OrganisationId,
  query: NoQuery,
  ...json,
  body: NewPortalTeam,
  answer: PortalTeam,
  handle({ params, body, caller }, tools) {
    const id = numberOf(params.organisation_id, 'organisation')
    return changing(orgOf(caller, undefined), tools, async unit => {
      const { record, team } = await createTeam(unit, await organisationOf(unit, id), body)
      return shownTeam(record, team)
    })
  }
})

const readTeam = endpoint({
  method: 'GET',
  path: `${ORGANISATION}/teams/{team_id}`,
  door: 'portal',
  summary: 'One team',
  params: TeamId,
  query: NoQuery,
  ...none,
  answer: PortalTeam,
  async handle({ params, caller }, tools) {
    const [id, teamId] = [numberOf(params.organisation_id, 'organisation'), numberOf(params.team_id, 'team')]
    const unit = await Unit.begin(orgOf(caller, undefined), tools)
    const record = await organisationOf(unit, id)
    const body = shownTeam(record, teamOf(record, teamId))
    return new Answer(200, body, etag(unit.revision('portal_organisation', id)))
  }
})

const updateTeam = endpoint({
  method: 'PUT',
  path: `${ORGANISATION}/teams/{team_id}`,
  door: 'portal',
  summary: 'Changes name or members of a team',
  params: TeamId,
  query: NoQuery,
  ...json,
  body: PortalTeamChange,
  answer: PortalTeam,
  handle({ params, body, caller, matched, changed }, tools) {
    const [id, teamId] = [numberOf(params.organisation_id, 'organisation'), numberOf(params.team_id, 'team')]
    return changing(orgOf(caller, undefined), tools, async unit => {
      const before = await organisationOf(unit, id)
      matched(unit.revision('portal_organisation', id))
      const team = teamOf(before, teamId)
      const after = changeTeam(unit, before, team, body)
      changed(shownTeam(before, team), shownTeam(after.record, after.team))
      return new Answer(200, shownTeam(after.record, after.team), etag(unit.revision('portal_organisation', id)))
    })
  }
})

const deleteTeam = endpoint({
  method: 'DELETE',
  path: `${ORGANISATION}/teams/{team_id}`,
  door: 'portal',
  summary: 'Deletes a team; its members stay in the default team',
  params: TeamId,
  query: NoQuery,
  ...none,
  answer: Done,
  handle({ params, caller, matched }, tools) {
    const [id, teamId] = [numberOf(params.organisation_id, 'organisation'), numberOf(params.team_id, 'team')]
    return changing(orgOf(caller, undefined), tools, async unit => {
      const record = await organisationOf(unit, id)
      matched(unit.revision('portal_organisation', id))
      removeTeam(unit, record, teamOf(record, teamId))
      return { status: 'ok' }
    })
  }
})

async function told(unit: Unit, record: OrganisationRecord): Promise<Answer> {
  return new Answer(200, await shown(unit, record), etag(unit.revision('portal_organisation', record.ID)))
}

export const portal: readonly Endpoint[] = [
  list,
  create,
  read,
  update,
  remove,
  listTeams,
  addTeam,
  readTeam,
  updateTeam,
  deleteTeam
]
