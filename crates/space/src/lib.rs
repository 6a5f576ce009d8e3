//! Address families, one file each.
//!
//! [`Space`] serves every `read` and `write` of an address: it looks up the address' family and hands the request on.
//! A family is one implementation of [`AddressFamily`] and one registration line; whoever wires a home together may
//! register more of them. Nothing here judges permissions except where only the opened thing can tell: which file a
//! path really is, and which address a host name really has.

mod attach;
mod blocking;
mod durable;
mod families;
mod family;
mod frame;
mod handle;
mod kind;
mod limits;
mod present;
mod real_path;
mod scene;
pub mod select;
mod show;
mod space;
mod trouble;
mod web;

pub use attach::{attach_bytes, attach_file};
pub use families::self_agent::SelfFacts;
pub use family::AddressFamily;
pub use frame::frame;
pub use limits::SpaceLimits;
pub use scene::Scene;
pub use select::{SelectError, SelectLimits, Selected, select};
pub use space::{Space, SpaceParts};
pub use trouble::from_store;
pub use web::{AddressVerdict, HostResolver, PageResolver, SystemResolver, WebPolicy, judge_address};
