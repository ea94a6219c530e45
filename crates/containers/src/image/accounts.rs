//! Users and groups, looked up in an image's own files as container engines do.

use serde::Serialize;

use crate::image::error::{Fault, shown};

/// The user and groups that programs run as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// Further groups, in the order of the image's file.
    pub groups: Vec<u32>,
    /// The user's name, if the image's files have it.
    pub name: Option<String>,
    /// The home folder; `/` if the image's files do not have it.
    pub home: String,
}

/// A line of `/etc/passwd`: name, password, user, group, remark, home, shell.
struct Account<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

/// A line of `/etc/group`: name, password, group, members.
struct Group<'a> {
    name: &'a str,
    gid: u32,
    members: Vec<&'a str>,
}

/// Looks up `user`, `user:group`, names or numbers; an empty text is root. Numbers need not be in the files, names do. The
/// first matching line counts. Malformed lines are ignored, as by every program.
///
/// # Errors
/// [`Fault::NoAccount`] for a name that the files do not have.
pub fn lookup(user: &str, passwd: &str, group: &str) -> Result<User, Fault> {
    let (wanted, wanted_group) = match user.split_once(':') {
        Some((user, group)) => (user, Some(group).filter(|g| !g.is_empty())),
        None => (user, None),
    };
    let wanted = if wanted.is_empty() { "0" } else { wanted };
    let number = wanted.parse::<u32>().ok().filter(|n| *n != u32::MAX);
    let mut accounts = passwd.lines().filter_map(account);
    let account = accounts.find(|a| a.name == wanted || Some(a.uid) == number);
    let groups: Vec<Group<'_>> = group.lines().filter_map(group_line).collect();
    let missing = |kind, name: &str, file| Fault::NoAccount {
        kind,
        name: shown(name.as_bytes()),
        file,
    };
    let uid = match (&account, number) {
        (Some(account), _) => account.uid,
        (None, Some(number)) => number,
        (None, None) => return Err(missing("user", wanted, "/etc/passwd")),
    };
    let mut found = User {
        uid,
        gid: account.as_ref().map_or(0, |a| a.gid),
        groups: Vec::new(),
        name: account.as_ref().map(|a| a.name.to_owned()),
        home: account
            .as_ref()
            .map(|a| a.home)
            .filter(|home| home.starts_with('/'))
            .unwrap_or("/")
            .to_owned(),
    };
    match wanted_group {
        Some(wanted) => {
            let number = wanted.parse::<u32>().ok().filter(|n| *n != u32::MAX);
            let known = groups
                .iter()
                .find(|g| g.name == wanted || Some(g.gid) == number);
            let gid = known.map(|g| g.gid).or(number);
            found.gid = gid.ok_or_else(|| missing("group", wanted, "/etc/group"))?;
        }
        // Without an explicit group, the user also has the groups that list it as a member.
        None => {
            let mine = |g: &&Group<'_>| {
                account
                    .as_ref()
                    .is_some_and(|a| g.members.contains(&a.name))
            };
            found.groups = groups.iter().filter(mine).map(|g| g.gid).collect();
        }
    }
    Ok(found)
}

fn account(line: &str) -> Option<Account<'_>> {
    let mut fields = line.trim().split(':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    let _password = fields.next()?;
    let uid = fields.next()?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    let home = fields.nth(1).unwrap_or_default();
    Some(Account {
        name,
        uid,
        gid,
        home,
    })
}

fn group_line(line: &str) -> Option<Group<'_>> {
    let mut fields = line.trim().split(':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    let _password = fields.next()?;
    let gid = fields.next()?.parse().ok()?;
    let members = fields.next().unwrap_or_default().split(',');
    let members = members.map(str::trim).filter(|m| !m.is_empty()).collect();
    Some(Group { name, gid, members })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n# a remark\nbroken:x:y:0::/:\nbird:x:101:102:BIRD:/var/lib/bird:/bin/false\n1000:x:5:6::relative:\n";
    const GROUP: &str = "root:x:0:\nnet:x:20:bird,root\nbird:x:102:\nwheel:x:10:root , bird\n";

    fn ids(user: &str) -> (u32, u32, Vec<u32>) {
        let found = lookup(user, PASSWD, GROUP).unwrap();
        (found.uid, found.gid, found.groups)
    }

    #[test]
    fn users_are_found_as_engines_find_them() {
        assert_eq!(ids(""), (0, 0, vec![20, 10]));
        assert_eq!(ids("bird"), (101, 102, vec![20, 10]));
        assert_eq!(ids("101"), (101, 102, vec![20, 10]));
        assert_eq!(ids("bird:"), (101, 102, vec![20, 10]));
        assert_eq!(ids("bird:net"), (101, 20, vec![]));
        assert_eq!(ids("bird:77"), (101, 77, vec![]));
        assert_eq!(ids("4711"), (4711, 0, vec![]));
        // A name that looks like a number.
        assert_eq!(ids("1000"), (5, 6, vec![]));
        let home = |user| lookup(user, PASSWD, GROUP).unwrap().home;
        assert_eq!(
            (
                home("bird").as_str(),
                home("1000").as_str(),
                home("9").as_str()
            ),
            ("/var/lib/bird", "/", "/")
        );
    }

    #[test]
    fn a_name_that_is_not_there_is_an_error_that_says_where() {
        let error = lookup("frr", PASSWD, GROUP).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its user 'frr' is not in its /etc/passwd"
        );
        let error = lookup("bird:frrvty", PASSWD, GROUP).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its group 'frrvty' is not in its /etc/group"
        );
        // Without the files only numbers can be resolved; 2^32 - 1 is not a valid number.
        assert_eq!(lookup("", "", "").unwrap().uid, 0);
        assert!(lookup("4294967295", "", "").is_err() && lookup("-1", "", "").is_err());
    }
}
