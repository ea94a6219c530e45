//! Union-find: the connected sets of many elements.

/// Elements numbered from 0, each in one group.
#[derive(Debug, Default)]
pub(crate) struct Forest {
    parent: Vec<u32>,
}

impl Forest {
    /// Puts each of `count` elements into a group of its own.
    pub(crate) fn part(&mut self, count: usize) {
        self.parent.clear();
        self.parent.extend(0..count as u32);
    }

    /// Joins the groups of two elements.
    pub(crate) fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b) as usize] = a.min(b);
    }

    /// Returns the element that represents the group of this one.
    pub(crate) fn root(&mut self, thing: usize) -> u32 {
        let mut at = thing as u32;
        while self.parent[at as usize] != at {
            let above = self.parent[at as usize];
            self.parent[at as usize] = self.parent[above as usize];
            at = above;
        }
        at
    }
}
