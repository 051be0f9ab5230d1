//! How things look on a terminal.

pub(crate) mod out;
pub(crate) mod table;
pub(crate) mod terminal;

/// Says something on one line of standard error, through [`out`].
macro_rules! tell {
    ($($part:tt)*) => {
        $crate::render::out::say(format_args!($($part)*))
    };
}
pub(crate) use tell;
