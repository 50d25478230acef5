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

/** Of our own beside the specification's members: what marks a certificate in lists (specification, Events 2). */
export const Expiry = Type.Object(
  {
    state: Type.Enum(['valid', 'expiring', 'expired'], {
      description:
        '`expiring` from `management.notifications.certificate_expiry_monitor.warning_threshold_days` before its end'
    }),
    days_remaining: Type.Union([Type.Integer(), Type.Null()], {
      description: 'Whole days until its end, 0 or below when it has passed; null: a bare public key has none'
    })
  },
  strict
)
export type Expiry = Static<typeof Expiry>

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

/** A certificate as it is answered: what is stored, and how near its end is now. */
export const CertificateTold = Type.Object({ ...Certificate.properties, expiry: Expiry }, strict)
export type CertificateTold = Static<typeof CertificateTold>

export const CertificateBasicsTold = Type.Object({ ...CertificateBasics.properties, expiry: Expiry }, strict)
export type CertificateBasicsTold = Static<typeof CertificateBasicsTold>
