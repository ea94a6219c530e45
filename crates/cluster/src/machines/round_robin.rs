//! OpenSN's Algorithm 1: the weighted round robin that distributes instances and their links to machines.

/// The instances and links of each machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dealt<I, L> {
    /// `Map_instance`: instances of each machine, in the sequence of their assignment.
    pub instances: Vec<Vec<I>>,
    /// `Map_link`: links of each machine. A link between two machines is in both lists, because each has to create its end.
    /// A link within a machine is in its list twice, once for each end.
    pub links: Vec<Vec<L>>,
}

/// Runs Algorithm 1 of the paper (III-C.1): machine `i` gets instances, each with all its links, until it has as many as its
/// weight. Then the next machine gets instances, and the first one follows the last.
///
/// The paper prints line 14 as an empty line and its text says that "the loop will continue": the turn passes there
/// (`i <- (i + 1) mod |machines|`), inside of line 12's condition, for otherwise weights would have no effect. A weight is
/// decreased per instance ("when an instance and its links have been assigned"), not per link.
///
/// # Panics
/// Without machines, or with a weight of 0.
pub fn weighted_round_robin<I: Copy, L>(
    weights: &[u32],
    instances: impl IntoIterator<Item = I>,
    links_of: impl Fn(I) -> Vec<L>,
) -> Dealt<I, L> {
    assert!(!weights.is_empty() && !weights.contains(&0));
    let mut dealt = Dealt {
        instances: vec![Vec::new(); weights.len()],
        links: weights.iter().map(|_| Vec::new()).collect(),
    };
    let (mut turn, mut left) = (0, weights[0]);
    for instance in instances {
        dealt.instances[turn].push(instance);
        dealt.links[turn].extend(links_of(instance));
        left -= 1;
        if left == 0 {
            // The paper resets a machine's count when it is used up. The count is not read before the machine's next turn.
            turn = (turn + 1) % weights.len();
            left = weights[turn];
        }
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lines of the paper, unchanged.
    #[allow(non_snake_case, reason = "the names are the paper's")]
    fn algorithm_1(
        Set_machine: &[u32],
        Set_instance: &[usize],
        Set_link: &[(usize, usize)],
    ) -> Dealt<usize, (usize, usize)> {
        let mut Map_instance = vec![Vec::new(); Set_machine.len()];
        let mut Map_link = vec![Vec::new(); Set_machine.len()];
        let mut WeightList: Vec<i64> = vec![]; // 1
        let mut WeightLeftList: Vec<i64> = vec![]; // 2
        for weight in Set_machine {
            WeightList.push(i64::from(*weight)); // 4
            WeightLeftList.push(i64::from(*weight)); // 5
        }
        let mut i = 0; // 6
        for instance in Set_instance {
            Map_instance[i].push(*instance); // 8
            for link in Set_link {
                if link.0 == *instance || link.1 == *instance {
                    Map_link[i].push(*link); // 10
                }
            }
            WeightLeftList[i] -= 1; // 11
            if WeightLeftList[i] <= 0 {
                WeightLeftList[i] = WeightList[i]; // 13
                i = (i + 1) % Set_machine.len(); // 14
            }
        }
        Dealt {
            instances: Map_instance,
            links: Map_link,
        }
    }

    proptest! {
        #[test]
        fn it_is_the_papers_algorithm(
            weights in prop::collection::vec(1_u32..6, 1..7),
            count in 0_usize..60,
            ends in prop::collection::vec((0_usize..60, 0_usize..60), 0..80),
        ) {
            let instances: Vec<usize> = (0..count).collect();
            let links: Vec<_> = ends.into_iter().filter(|(a, b)| a != b).collect();
            let links_of = |n: usize| links.iter().filter(|(a, b)| *a == n || *b == n).copied().collect();
            let dealt = weighted_round_robin(&weights, instances.iter().copied(), links_of);
            prop_assert_eq!(&dealt, &algorithm_1(&weights, &instances, &links));
            // Another formulation: the position in the round of all weights.
            let all: usize = weights.iter().map(|w| *w as usize).sum();
            for (machine, dealt) in dealt.instances.iter().enumerate() {
                let before: usize = weights[..machine].iter().map(|w| *w as usize).sum();
                let turn = before..before + weights[machine] as usize;
                let expected: Vec<usize> = (0..count).filter(|n| turn.contains(&(n % all))).collect();
                prop_assert_eq!(dealt, &expected);
            }
        }
    }
}
