//! Fetching pages without reaching what only this machine or its network should reach.

mod address;
mod client;
mod page;
mod policy;
mod resolve;

pub use self::address::{AddressVerdict, judge_address};
pub(crate) use self::client::{WebClient, WebResponse};
pub(crate) use self::page::{PageText, decode_body, read_page};
pub use self::policy::{PageResolver, WebPolicy};
pub use self::resolve::{HostResolver, SystemResolver};
