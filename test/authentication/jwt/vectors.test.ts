import { createSecretKey } from 'node:crypto'
import t from 'tap'
import type { Family } from '../../../gateway/api.ts'
import { endOf, timeReason } from '../../../gateway/authentication/jwt/claims.ts'
import { readJws } from '../../../gateway/authentication/jwt/compact.ts'
import { keysOfSet } from '../../../gateway/authentication/jwt/keys.ts'
import { isSigned } from '../../../gateway/authentication/jwt/signature.ts'

/** Examples of the standards, with their keys: the signature counts, and no longer once a bit of it or of the payload differs. */

const JOE = 'eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ'
const DOOR =
  'SXTigJlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250byB0aGUgcm9hZCwgYW5k' +
  'IGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0IGJlIHN3ZXB0IG9mZiB0by4'
const BILBO = 'bilbo.baggins@hobbiton.example'

const bilboRsa = {
  kty: 'RSA',
  kid: BILBO,
  use: 'sig',
  n:
    'n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nqQ0VEiZQHz_AJmSCpMaJMRBSFKrKb2wqVwGU' +
    '_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3RBordaZ6Aj-oBHqFEHYpPe7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhG' +
    'qC0ZCuEHg8lhzwOHrtIQbS0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gHdrNP' +
    '5zw',
  e: 'AQAB'
}

interface Vector {
  readonly name: string
  readonly family: Family
  readonly alg: string
  readonly jwk: Readonly<Record<string, string>>
  readonly header: string
  readonly payload: string
  readonly signature: string
}

const vectors: readonly Vector[] = [
  {
    name: 'RFC 7515 A.1, HS256',
    family: 'hmac',
    alg: 'HS256',
    jwk: {
      kty: 'oct',
      k: 'AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow'
    },
    header: 'eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9',
    payload: JOE,
    signature: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'
  },
  {
    name: 'RFC 7515 A.2, RS256',
    family: 'rsa',
    alg: 'RS256',
    jwk: {
      kty: 'RSA',
      n:
        'ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS' +
        '-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2' +
        'CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9' +
        'gb54h4FRWyuXpoQ',
      e: 'AQAB'
    },
    header: 'eyJhbGciOiJSUzI1NiJ9',
    payload: JOE,
    signature:
      'cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1d' +
      'nZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDw' +
      'usC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77' +
      'Rw'
  },
  {
    name: 'RFC 7515 A.3, ES256',
    family: 'ecdsa',
    alg: 'ES256',
    jwk: {
      kty: 'EC',
      crv: 'P-256',
      x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU',
      y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0'
    },
    header: 'eyJhbGciOiJFUzI1NiJ9',
    payload: JOE,
    signature: 'DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q'
  },
  {
    name: 'RFC 7515 A.4, ES512',
    family: 'ecdsa',
    alg: 'ES512',
    jwk: {
      kty: 'EC',
      crv: 'P-521',
      x: 'AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqwQGk',
      y: 'ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3kyMj2'
    },
    header: 'eyJhbGciOiJFUzUxMiJ9',
    payload: 'UGF5bG9hZA',
    signature:
      'AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-KGDKB34XO0aw_7XdtAG8GaSwFKdCAPZgoXD2YBJZCPEX3' +
      'xKpRwcdOO8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn'
  },
  {
    name: 'RFC 7520 4.1, RS256',
    family: 'rsa',
    alg: 'RS256',
    jwk: bilboRsa,
    header: 'eyJhbGciOiJSUzI1NiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9',
    payload: DOOR,
    signature:
      'MRjdkly7_-oTPTS3AXP41iQIGKa80A0ZmTuV5MEaHoxnW2e5CZ5NlKtainoFmKZopdHM1O2U4mwzJdQx996ivp83xuglII7PNDi84wnB-BDkoBwA78185' +
      'hX-Es4JIwmDLJK3lfWRa-XtL0RnltuYv746iYTh_qHRD68BNt1uSNCrUCTJDt5aAE6x8wW1Kt9eRo4QPocSadnHXFxnt8Is9UzpERV0ePPQdLuW3IS_' +
      'de3xyIrDaLGdjluPxUAhb6L2aXic1U12podGU0KLUQSE_oI-ZnmKJ3F4uOZDnd6QZWJushZ41Axf_fcIe8u9ipH84ogoree7vjbU5y18kDquDg'
  },
  {
    name: 'RFC 7520 4.2, PS384',
    family: 'rsa',
    alg: 'PS384',
    jwk: bilboRsa,
    header: 'eyJhbGciOiJQUzM4NCIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9',
    payload: DOOR,
    signature:
      'cu22eBqkYDKgIlTpzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEsnk2IpN6-tPid6VrklHkqsGqDqHCdP6O8TTB5dDDItllVo6_1OLPpcbUrhi' +
      'USMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8ZnyPEgVFn442ZdNqiVJRmBqrYRXe8P_ijQ7p8Vdz0TTrxUeT3lm8d9shnr2lfJT8ImUjvAA2' +
      'Xez2Mlp8cBE5awDzT0qI0n6uiP1aCN_2_jLAeQTlqRHtfa64QQSUmFAAjVKPbByi7xho0uTOcbH510a6GYmJUAfmWjwZ6oD4ifKo8DYM-X72Eaw'
  },
  {
    name: 'RFC 7520 4.3, ES512',
    family: 'ecdsa',
    alg: 'ES512',
    jwk: {
      kty: 'EC',
      kid: BILBO,
      use: 'sig',
      crv: 'P-521',
      x: 'AHKZLLOsCOzz5cY97ewNUajB957y-C-U88c3v13nmGZx6sYl_oJXu9A5RkTKqjqvjyekWF-7ytDyRXYgCF5cj0Kt',
      y: 'AdymlHvOiLxXkEhayXQnNCvDX4h9htZaCJN34kfmC6pV5OhQHiraVySsUdaQkAgDPrwQrJmbnX9cwlGfP-HqHZR1'
    },
    header: 'eyJhbGciOiJFUzUxMiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9',
    payload: DOOR,
    signature:
      'AE_R_YZCChjn4791jSQCrdPZCNYqHXCTZH0-JZGYNlaAjP2kqaluUIIUnC9qvbu9Plon7KRTzoNEuT4Va2cmL1eJAQy3mtPBu_u_sDDyYjnAMDxXPn7X' +
      'rT0lw-kvAD890jl8e2puQens_IEKBpHABlsbEPX6sFY8OcGDqoRuBomu9xQ2'
  },
  {
    name: 'RFC 7520 4.4, HS256',
    family: 'hmac',
    alg: 'HS256',
    jwk: { kty: 'oct', k: 'hJtXIZ2uSN5kbQfbtTNWbpdmhkV8FJG-Onbc6mxCcYg' },
    header: 'eyJhbGciOiJIUzI1NiIsImtpZCI6IjAxOGMwYWU1LTRkOWItNDcxYi1iZmQ2LWVlZjMxNGJjNzAzNyJ9',
    payload: DOOR,
    signature: 's0h6KThzkfBBBkLspW1h84VsJZFTsPPqMDA7g1Md7p0'
  },
  {
    name: 'RFC 8037 A.4, EdDSA',
    family: 'eddsa',
    alg: 'EdDSA',
    jwk: { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' },
    header: 'eyJhbGciOiJFZERTQSJ9',
    payload: 'RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc',
    signature: 'hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg'
  }
]

/** With its first bit turned. */
function turned(text: string): string {
  const bytes = Buffer.from(text, 'base64url')
  bytes[0]! ^= 1
  return bytes.toString('base64url')
}

for (const { name, family, alg, jwk, header, payload, signature } of vectors)
  t.test(name, async t => {
    const key = family === 'hmac' ? createSecretKey(Buffer.from(jwk.k!, 'base64url')) : keysOfSet([jwk], family)[0]!.key
    const counts = (...parts: string[]) => isSigned({ token: parts.join('.'), alg, kid: null, claims: {} }, key)
    t.ok(await counts(header, payload, signature))
    t.notOk(await counts(header, payload, turned(signature)))
    t.notOk(await counts(header, turned(payload), signature))
    t.notOk(await counts(header, payload, ''))
    const read = readJws(`${header}.${payload}.${signature}`, family)
    if (payload !== JOE) return t.equal(read, 'malformed', 'its payload is no JSON object, so it is no JWT')
    if (typeof read === 'string') return t.fail(read)
    t.same(read.claims, { iss: 'joe', exp: 1_300_819_380, 'http://example.com/is_root': true })
    const scheme = { skews: { issuedAt: 0, notBefore: 0, expires: 0 } }
    t.equal(endOf(read.claims, scheme), 1_300_819_380_000)
    t.equal(timeReason(read.claims, scheme, 1_300_819_379_999), null)
    t.equal(timeReason(read.claims, scheme, 1_300_819_380_000), 'token has expired')
  })

t.test('RFC 7515 A.5: a token without a signature', async t => {
  for (const family of ['hmac', 'rsa', 'ecdsa', 'eddsa'] as const)
    t.equal(readJws(`eyJhbGciOiJub25lIn0.${JOE}.`, family), 'other method')
})

t.test('RFC 7515 Appendix E: an extension that is not known', async t => {
  const header = Buffer.from(
    '{"alg":"none","crit":["http://example.invalid/UNDEFINED"],"http://example.invalid/UNDEFINED":true}'
  )
  t.equal(readJws(`${header.toString('base64url')}.RkFJTA.`, 'hmac'), 'other method')
  const signed = header.toString().replace('none', 'HS256')
  t.equal(readJws(`${Buffer.from(signed).toString('base64url')}.${JOE}.AAAA`, 'hmac'), 'malformed')
})
