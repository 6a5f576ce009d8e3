//! Giving the address back that the shell ate.
//!
//! `~/memory/x` is an address, but every shell turns it into `$HOME/memory/x` before we see it.

use std::borrow::Cow;
use std::path::Path;

/// The names below `~/` that are ours.
const OURS: [&str; 5] = ["memory", "tools", "triggers", "channels", "self"];

/// Returns the address that was meant by `argument`: at or below `$HOME/{memory,tools,triggers,channels,self}` it is
/// `~/…`, everything else is as it stands. The home directory is compared as the shell wrote it, never resolved.
pub fn restore<'a>(argument: &'a str, home_dir: Option<&Path>) -> Cow<'a, str> {
    let Some(home_dir) = home_dir.and_then(Path::to_str).filter(|dir| dir.starts_with('/')) else {
        return argument.into();
    };
    let below = argument
        .strip_prefix(home_dir.trim_end_matches('/'))
        .and_then(|rest| rest.strip_prefix('/'));
    match below {
        Some(rest) if OURS.contains(&first_component(rest)) => format!("~/{rest}").into(),
        _ => argument.into(),
    }
}

fn first_component(path: &str) -> &str {
    path.split('/').next().unwrap_or(path)
}

/// Returns the address with the home directory of this process.
pub fn address(argument: &str) -> String {
    restore(argument, std::env::home_dir().as_deref()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at_home(argument: &str) -> String {
        restore(argument, Some(Path::new("/home/ada"))).into_owned()
    }

    #[test]
    fn what_the_shell_ate_comes_back() {
        for (argument, address) in [
            ("/home/ada/memory/notes.md", "~/memory/notes.md"),
            ("/home/ada/memory/", "~/memory/"),
            ("/home/ada/memory", "~/memory"),
            ("/home/ada/tools/", "~/tools/"),
            ("/home/ada/tools/github/a b", "~/tools/github/a b"),
            ("/home/ada/self", "~/self"),
            ("/home/ada/triggers/x", "~/triggers/x"),
            ("/home/ada/channels/x", "~/channels/x"),
        ] {
            assert_eq!(at_home(argument), address);
        }
    }

    #[test]
    fn everything_else_stays() {
        for argument in [
            "~/memory/x",
            "/home/ada",
            "/home/ada/",
            "/home/ada/memoryx",
            "/home/ada/src/memory",
            "/home/adams/memory/x",
            "/home/ada//memory/x",
            "file:/home/ada/memory/x",
            "thread:",
            "https://x.example/home/ada/memory",
            "",
        ] {
            assert_eq!(at_home(argument), argument);
        }
        assert_eq!(restore("/memory/x", None), "/memory/x");
        assert_eq!(restore("/memory/x", Some(Path::new(""))), "/memory/x");
        assert_eq!(restore("/h/memory/x", Some(Path::new("/h/"))), "~/memory/x");
    }

    proptest! {
        #[test]
        fn restoring_is_the_inverse_of_expanding(rest in "[a-z./ ]{0,20}", root in prop::sample::select(OURS.to_vec())) {
            let address = format!("~/{root}/{rest}");
            let expanded = address.replacen('~', "/home/ada", 1);
            let once = at_home(&expanded);
            prop_assert_eq!(&once, &address);
            prop_assert_eq!(at_home(&once), address);
        }
    }
}
