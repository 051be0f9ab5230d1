//! From a place in compiled code to the IL it came from.

use biopsy_model::Avma;

use super::{Method, Runtime};
use crate::methods::{DEBUG_INFO_BYTES, DebugInfoFormat, parse_debug_info};

impl Runtime<'_> {
    /// Where in the method's IL the code at an address is from: the compiler's map, which code that was compiled at run time has
    /// beside it and code that was compiled ahead has not.
    #[must_use]
    pub fn il_offset(&self, method: &Method, address: Avma) -> Option<u32> {
        let header = method.code_header?;
        let version = self.found().version.as_ref()?;
        let format = DebugInfoFormat::of_version(version.major.into())?;
        let place = self.layout().field("RealCodeHeader", "DebugInfo").ok()?;
        let at = self.memory().u64(header.0.checked_add(place.into())?).ok()?;
        let bytes = self.memory().read_up_to(at, DEBUG_INFO_BYTES).ok()?;
        let map = parse_debug_info(&bytes, format)?;
        map.il_offset(u32::try_from(address.0.checked_sub(method.code_start.0)?).ok()?)
    }
}
