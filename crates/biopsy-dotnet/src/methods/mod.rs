//! Which method code at an address belongs to, as the runtime's events or its files tell.
