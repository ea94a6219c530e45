//! Minimisation without derivatives: the simplex method of Nelder and Mead (1965) with the factors of Gao and Han
//! (2012), which depend on the number of coordinates. With those of 1965 a simplex of 20 coordinates becomes flat too early.

/// Result of a minimisation.
pub(crate) struct Least {
    /// The best point.
    pub(crate) at: Vec<f64>,
    /// The function's value there.
    pub(crate) value: f64,
}

/// Minimises `function` from `start` with at most `evaluations` evaluations. `step` is the size of the first simplex in
/// each coordinate.
pub(crate) fn minimise(
    start: &[f64],
    step: f64,
    evaluations: usize,
    mut function: impl FnMut(&[f64]) -> f64,
) -> Least {
    let n = start.len();
    let dimension = n as f64;
    let expansion = 1.0 + 2.0 / dimension;
    let contraction = 0.75 - 0.5 / dimension;
    let shrinkage = 1.0 - 1.0 / dimension;
    let mut simplex: Vec<(f64, Vec<f64>)> = Vec::with_capacity(n + 1);
    for corner in 0..=n {
        let mut at = start.to_vec();
        if corner > 0 {
            at[corner - 1] += step;
        }
        simplex.push((function(&at), at));
    }
    let mut used = n + 1;
    while used < evaluations {
        simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
        let centre: Vec<f64> = (0..n)
            .map(|i| simplex[..n].iter().map(|(_, at)| at[i]).sum::<f64>() / n as f64)
            .collect();
        let worst = simplex[n].clone();
        let along = |factor: f64| -> Vec<f64> {
            centre
                .iter()
                .zip(&worst.1)
                .map(|(c, w)| c + factor * (c - w))
                .collect()
        };
        let reflected = along(1.0);
        let value = function(&reflected);
        used += 1;
        if value < simplex[0].0 {
            let expanded = along(expansion);
            let further = function(&expanded);
            used += 1;
            simplex[n] = if further < value {
                (further, expanded)
            } else {
                (value, reflected)
            };
        } else if value < simplex[n - 1].0 {
            simplex[n] = (value, reflected);
        } else {
            let contracted = along(if value < worst.0 {
                contraction
            } else {
                -contraction
            });
            let inside = function(&contracted);
            used += 1;
            if inside < worst.0.min(value) {
                simplex[n] = (inside, contracted);
            } else {
                let best = simplex[0].1.clone();
                for (value, at) in &mut simplex[1..] {
                    for (x, b) in at.iter_mut().zip(&best) {
                        *x = b + shrinkage * (*x - b);
                    }
                    *value = function(at);
                }
                used += n;
            }
        }
    }
    simplex.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (value, at) = simplex.swap_remove(0);
    Least { at, value }
}
