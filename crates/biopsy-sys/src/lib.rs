//! safe wrappers over the system calls biopsy uses; all unsafe code is here.
