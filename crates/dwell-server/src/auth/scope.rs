//! What can be allowed.

use std::fmt;

/// One thing that a token may be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Putting, changing and cancelling jobs.
    Put,
    /// Leasing jobs and settling them.
    Consume,
    /// Looking at jobs, topics and metrics.
    Read,
    /// Looking after topics: pause, resume, redrive, purge.
    Operate,
    /// Everything, also policies and deleting topics.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Put, Self::Consume, Self::Read, Self::Operate, Self::Admin];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Consume => "consume",
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }

    /// The one that is called so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Some scopes. [`Scope::Admin`] includes all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    /// All of them.
    pub const ALL: Self = Self(0b1_1111);

    /// Whether this one is among them.
    pub fn has(self, scope: Scope) -> bool {
        self.0 & (scope.bit() | Scope::Admin.bit()) != 0
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<T: IntoIterator<Item = Scope>>(scopes: T) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_itself_alone_and_admin_is_all() {
        for given in Scope::ALL {
            let scopes: Scopes = [given].into_iter().collect();
            for asked in Scope::ALL {
                assert_eq!(scopes.has(asked), given == asked || given == Scope::Admin, "{given} for {asked}");
            }
            assert_eq!(Scope::named(given.name()), Some(given));
            assert!(Scopes::ALL.has(given) && !Scopes::default().has(given));
        }
        assert_eq!(Scope::named("PUT"), None);
    }
}
