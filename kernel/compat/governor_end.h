/* SPDX-License-Identifier: GPL-2.0-only */
/* What stands behind a governor's file when it becomes a module: its start and its end. */
#pragma pop_macro("module_init")
#pragma pop_macro("module_exit")

static int __init torpor_start(void)
{
	int ret = torpor_start_own ? torpor_start_own() : -EINVAL;

	if (ret && torpor_governor)
		torpor_unregister_governor(torpor_governor);
	if (ret)
		return ret;
	if (!torpor_governor) {
		pr_info("%s: the governor does not offer itself on this machine\n", KBUILD_MODNAME);
		return -ENODEV;
	}
	if (!torpor_can_unregister()) {
		pr_info("%s: stays loaded, since this kernel does not list its data symbols\n",
			KBUILD_MODNAME);
		__module_get(THIS_MODULE);
	}
	return 0;
}

static void __exit torpor_end(void)
{
	torpor_unregister_governor(torpor_governor);
	if (torpor_end_own)
		torpor_end_own();
}

module_init(torpor_start);
module_exit(torpor_end);

MODULE_VERSION(TORPOR_VERSION);
