import Type, { type Static } from 'typebox'

const strict = { additionalProperties: false } as const
const Texts = Type.Array(Type.String())
const Attributes = Type.Array(
  Type.Object({ Type: Type.Array(Type.Number(), { description: 'Object identifier' }), Value: Type.String() }, strict)
)

/** Specification, Name object. */
export const Name = Type.Object(
  {
    CommonName: Type.String({ description: 'Of several the last; empty: none' }),
    Country: Texts,
    ExtraNames: Attributes,
    Locality: Texts,
    Names: { ...Attributes, description: 'Every attribute, in its order' },
    Organization: Texts,
    OrganizationalUnit: Texts,
    PostalCode: Texts,
    Province: Texts,
    SerialNumber: Type.String({ description: 'Attribute of the name, not of the certificate' }),
    StreetAddress: Texts
  },
  strict
)
export type Name = Static<typeof Name>

/** Specification, Certificate: of a chain, its first. A bare public key has the zero time and no names. */
export const Certificate = Type.Object(
  {
    id: Type.String({ description: 'Organisation id, followed by the fingerprint' }),
    fingerprint: Type.String({ description: 'SHA-256 of the DER, hexadecimal' }),
    dns_names: Texts,
    has_private: Type.Boolean({ description: 'Its private key is stored too; no call answers it' }),
    is_ca: Type.Boolean(),
    not_before: Type.String({ format: 'date-time' }),
    not_after: Type.String({ format: 'date-time' }),
    issuer: Name,
    subject: Name
  },
  strict
)
export type Certificate = Static<typeof Certificate>

/** What lists with `mode=detailed` tell of a certificate. */
export const CertificateBasics = Type.Object(
  {
    id: Type.String(),
    issuer_cn: Type.String(),
    subject_cn: Type.String(),
    dns_names: Texts,
    has_private: Type.Boolean(),
    is_ca: Type.Boolean(),
    not_before: Type.String({ format: 'date-time' }),
    not_after: Type.String({ format: 'date-time' })
  },
  strict
)
export type CertificateBasics = Static<typeof CertificateBasics>
