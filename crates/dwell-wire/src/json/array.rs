//! One JSON array, split into its elements.

use serde_json::value::RawValue;

/// The elements of a list; `None` if the value is something else.
pub fn read_array(value: &RawValue) -> Option<Vec<&RawValue>> {
    if value.get().starts_with('[') { serde_json::from_str(value.get()).ok() } else { None }
}
