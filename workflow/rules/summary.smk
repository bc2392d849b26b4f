def say_what_came_out():
    """Print the main tables of a run and where its figures are, of what was asked for.

    `onsuccess` calls it, which in a module is left to the workflow that uses it (docs/module.md).
    """
    import pandas as pd
    from shuffledp.studies.comparison import findings
    from shuffledp.studies.targets import target_findings

    def of_run(path):
        return str(MODIFIER.modify_path(result(path)))

    asked = {str(path) for job in workflow.dag.jobs for path in job.output}
    comparison, folder = of_run("utility/comparison.csv"), of_run("figures/")
    table = findings(pd.read_csv(comparison)) if comparison in asked else ""
    if table:
        print(
            "\nDistance to the true histogram at equal privacy (delta = "
            f"{config['target_delta']:g}), as a multiple of the\nreference's: mean over n (lowest "
            f"to highest). From {comparison}.\n\n{table}\n"
        )
    targets = [
        path
        for region in REGIONS
        if (path := of_run(f"utility/{region}.{first_grid(region)}.targets.csv"))
        in asked
    ]
    if targets:
        print("\nEvery mechanism calibrated to the same certified (eps, delta):\n")
        for path in targets:
            print(f"{target_findings(pd.read_csv(path), brief=True)}\n")
    drawn = sorted(p for p in asked if p.startswith(folder) and p.endswith(".png"))
    if drawn:
        main = of_run("figures/comparison.png")
        first = f"; the main one is {main}" if main in drawn else ""
        print(f"Figures: {len(drawn)} in {folder}, as PNG, PDF and SVG{first}.")
    reproduction = of_run("reproduction/summary.md")
    if reproduction in asked:
        page = of_run("reproduction/report.html")
        print(f"The papers' numbers: {reproduction}, and to explore {page}")
    page = of_run("report.html")
    if page in asked:
        print(f"To explore in a browser: {page}")
