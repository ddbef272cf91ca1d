# SPDX-License-Identifier: Apache-2.0
"""Jobs of jobs.py about what a sandbox may reach."""
import e2b
from e2b import Sandbox


def told(sandbox):
	network = sandbox.get_info().network or {}
	return network.get('deny_out', []), network.get('allow_out', [])


def add(job, raises):
	@job(since=(2, 30))
	def networks_of_addresses(s):
		"""As they are told; the server of the suite permits no network, so that what is allowed alone is refused."""
		rules = {'deny_out': ['9.9.9.0/24', '8.8.8.8/32'], 'allow_out': ['9.9.9.9']}
		narrowed = Sandbox.create(timeout=60, network=rules)
		assert told(narrowed) == (['9.9.9.0/24', '8.8.8.8'], ['9.9.9.9']), narrowed.get_info()
		narrowed.update_network({'deny_out': lambda ctx: [ctx.all_traffic]})
		assert told(narrowed) == (['0.0.0.0/0'], []), narrowed.get_info()
		narrowed.update_network({'deny_out': ['2620:fe::/32'], 'allow_out': ['2620:fe::9']})
		assert told(narrowed) == (['2620:fe::/32'], ['2620:fe::9']), narrowed.get_info()
		for wrong, word in [({'deny_out': ['example.org']}, 'denyOut'), ({'deny_out': ['8.8.8.8/33']}, 'denyOut'), ({'allow_out': ['example.org']}, 'allowOut'),
				({'rules': {'example.org': [{'transform': {'headers': {'a': 'b'}}}]}}, 'rules'), ({'allow_out': ['9.9.9.9'], 'deny_out': ['0.0.0.0/0']}, 'SANDBOX_NETWORK_MAX')]:
			error = raises(e2b.SandboxException, narrowed.update_network, wrong)
			assert word in str(error), error
		assert told(narrowed) == (['2620:fe::/32'], ['2620:fe::9'])
		narrowed.kill()
