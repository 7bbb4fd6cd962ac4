# SPDX-License-Identifier: BSD-3-Clause
"""Two ReFrame checks of an installation whose drivers are on PATH:  reframe -C SITE.py -c scripts/packaging/reframe -r"""
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, run_after, sanity_function, variable


class _Check(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    ranks = variable(int, value=2)

    @run_after("init")
    def set_tasks(self):
        self.num_tasks = self.ranks
        self.env_vars = {"OMP_NUM_THREADS": 1}


@rfm.simple_test
class GraticuleHalo(_Check):
    """Halo exchange of one atmosphere's fields, as a ratio to copies of the same bytes: the network and the node's memory."""
    descr = "halo exchange"
    executable = "graticule-bench"
    executable_opts = ["halo", "--grid", "181x360", "--channels", "8", "--threads", "1"]

    @sanity_function
    def has_all_rows(self):
        return sn.all([sn.assert_found(r"^halo of widths 1x1, 8 x 181 x 360 f32, ", self.stdout), sn.assert_found(r"^ +HaloPlan +[0-9.]+ ", self.stdout)])

    @performance_function("us")
    def exchange(self):
        return sn.extractsingle(r"^ +HaloPlan +\S+ +\S+ +(\S+)", self.stdout, 1, float)


@rfm.simple_test
class GraticuleSolidBody(_Check):
    """A day of case 2 of Williamson et al. 1992, whose exact solution is the initial state."""
    descr = "shallow water in a steady state"
    executable = "graticule-swe"
    executable_opts = ["--case", "2", "--nlat", "64", "--nlon", "128", "--days", "1", "--output", "swe"]
    postrun_cmds = ["cat swe/report.json"]

    @sanity_function
    def stays_steady(self):
        mass = sn.extractsingle(r'"mass_drift": *([-+.e0-9]+)', self.stdout, 1, float)
        error = sn.extractsingle(r'"l2_height": *([-+.e0-9]+)', self.stdout, 1, float)
        return sn.all([sn.assert_lt(sn.abs(mass), 1e-12), sn.assert_lt(error, 1e-4)])
