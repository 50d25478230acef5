import Type, { type Static } from 'typebox'

const strict = { additionalProperties: false } as const
const Text = (description: string, maxLength = 256) => Type.String({ maxLength, description })
const Id = Type.Integer({ minimum: 1 })
const Time = Type.String({ pattern: '^\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d$', description: 'UTC' })

/** A name that people can see. */
const PortalName = Type.String({ maxLength: 256, pattern: '\\S', description: 'Not blank; others may have the same' })

/** Specification, Portal organisation: a member of `Users`. */
export const PortalUser = Type.Object(
  {
    Active: Type.Boolean(),
    Email: Text('Unique in the portal, whatever the case', 320),
    First: Text('First name'),
    Last: Text('Last name'),
    Role: Text('Free, e.g. consumer-team-member', 64),
    Provider: Text('Who knows the user, e.g. password or github', 64),
    OrganisationID: Id,
    ID: Id
  },
  strict
)
export type PortalUser = Static<typeof PortalUser>

const given = {
  Active: Type.Optional(PortalUser.properties.Active),
  First: Type.Optional(PortalUser.properties.First),
  Last: Type.Optional(PortalUser.properties.Last),
  Role: Type.Optional(PortalUser.properties.Role),
  Provider: Type.Optional(PortalUser.properties.Provider),
  OrganisationID: Type.Optional(PortalUser.properties.OrganisationID)
}
const Email = Type.String({ maxLength: 320, pattern: '^[^@\\s]+@[^@\\s]+$', description: 'Unique, whatever the case' })

/** A new user; what is not given: active, of the default organisation, `consumer-team-member`, `password`. */
export const NewPortalUser = Type.Object({ ...given, Email }, strict)
export type NewPortalUser = Static<typeof NewPortalUser>

/** What changes of a user; what is not given stays. One that was read may come back whole: its id is not looked at. */
export const PortalUserChange = Type.Object({ ...given, Email: Type.Optional(Email), ID: Type.Optional(Id) }, strict)
export type PortalUserChange = Static<typeof PortalUserChange>

const Team = {
  Default: Type.Boolean({ description: 'Everybody of the organisation is in it' }),
  ID: Id,
  Name: Text('')
}

export const PortalTeam = Type.Object({ ...Team, Users: Type.Array(Id, { description: 'Ids of its members' }) }, strict)
export type PortalTeam = Static<typeof PortalTeam>

/** Specification, Portal organisation. */
export const PortalOrganisation = Type.Object(
  {
    ID: Id,
    Name: Text(''),
    CreatedAt: Time,
    UpdatedAt: Time,
    Teams: Type.Array(Type.Object(Team, strict)),
    Users: Type.Array(PortalUser)
  },
  strict
)
export type PortalOrganisation = Static<typeof PortalOrganisation>

/** What is given of an organisation. */
export const PortalOrganisationName = Type.Object({ Name: PortalName }, strict)
/** What changes of an organisation: its name. One that was read may come back whole: nothing else is looked at. */
export const PortalOrganisationChange = Type.Object(
  { ...Type.Partial(PortalOrganisation).properties, Name: PortalName },
  strict
)

const Users = Type.Optional(
  Type.Array(Id, { maxItems: 10_000, description: 'Ids of members of the organisation; not given: as they are' })
)
/** A new team. */
export const NewPortalTeam = Type.Object({ Name: PortalName, Users }, strict)
/** What changes of a team; what is not given stays. One that was read may come back whole: its id is not looked at. */
export const PortalTeamChange = Type.Object(
  { ...Type.Partial(Type.Object(Team)).properties, Name: Type.Optional(PortalName), Users },
  strict
)
export type PortalTeamChange = Static<typeof PortalTeamChange>
