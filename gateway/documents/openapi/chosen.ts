import { isObject } from '../../../config/report.ts'
import { type ForeignCheck, type Later, pointer } from '../../../config/validate.ts'

type At = Parameters<ForeignCheck>[1]

/**
 * A check of what a discriminator chooses: the property must be there and name one of the choices, and that alone is
 * looked at. A value that is no object names nothing; `others` says whether it fits.
 */
export function chosen(property: string, choices: ReadonlyMap<string, Later>, others: Later): ForeignCheck {
  const check = (value: unknown, at?: At): boolean => {
    const path = at?.instancePath ?? ''
    const name = isObject(value) && Object.hasOwn(value, property) ? value[property] : undefined
    const choice = isObject(value) ? (typeof name === 'string' ? choices.get(name) : undefined) : others
    if (choice === undefined) {
      const fault =
        name === undefined
          ? { keyword: 'required', instancePath: path, params: { missingProperty: property } }
          : {
              keyword: 'enum',
              instancePath: `${path}/${pointer(property)}`,
              params: { allowedValues: [...choices.keys()] }
            }
      ;(check as ForeignCheck).errors = [{ ...fault, schemaPath: '' }]
      return false
    }
    const validate = choice()
    if (validate(value, at)) return true
    ;(check as ForeignCheck).errors = validate.errors ?? []
    return false
  }
  return check as ForeignCheck
}
